package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/remote"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
)

// server is a command that serves.
type server struct {
	command string // for errors
	folder  string // of the socket
	cmd     *exec.Cmd
	life    *os.File // its end makes the supervisor end the command
	output  *osutil.Lines
	exited  chan struct{} // closed when supervisor and command are gone
	options *Options
	model   *remote.Instance
	closing sync.Once
}

// start starts the command and waits until its model is ready.
func start(ctx context.Context, o *Options, m executors.Model) (*server, error) {
	folder, err := os.MkdirTemp("", "harpagon-")
	if err != nil {
		return nil, fmt.Errorf("executors/process: a folder for the socket: %w", err)
	}
	s := &server{command: m.Module.Command[0], folder: folder, options: o, exited: make(chan struct{})}
	if err := s.spawn(m); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("executors/process: starting %s: %w", s.command, err)
	}
	begun, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	watched, ended := context.WithCancel(begun)
	defer ended()
	go func() { // notices the end of a command that never gets ready
		select {
		case <-s.exited:
			ended()
		case <-watched.Done():
		}
	}()
	if err := s.attach(watched, m); err != nil {
		over := !s.alive() // by itself
		s.close()
		switch {
		case over:
			err = s.gone()
			if strings.Contains(err.Error(), "No module named") || strings.Contains(err.Error(), "No such file") {
				err = fmt.Errorf("%w; files that the command needs besides those its arguments name are to be named in files = [...]", err)
			}
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s does not serve module %q: %w", s.command, m.Module.Name, err)
	}
	return s, nil
}

// socket is short: the path of a socket has about a hundred characters.
func (s *server) socket() string { return filepath.Join(s.folder, "s") }

func (s *server) spawn(m executors.Model) error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	supervisor := s.options.Supervisor
	if len(supervisor) == 0 {
		self, err := os.Executable()
		if err != nil {
			_ = ours.Close()
			return err
		}
		supervisor = []string{self}
	}
	told := map[string]string{"socket": s.socket(), "model": m.Module.Model, "module": m.Module.Name}
	arguments := append([]string{}, supervisor[1:]...)
	for _, a := range m.Module.Command {
		for name, value := range told {
			a = strings.ReplaceAll(a, "{"+name+"}", value)
		}
		arguments = append(arguments, a)
	}
	s.output = osutil.NewLines(s.options.Output, "[process "+m.Module.Name+"] ")
	s.cmd = exec.Command(supervisor[0], arguments...)
	s.cmd.Env = append(os.Environ(), marker+"="+strconv.FormatInt(s.options.StopTimeout.Milliseconds(), 10),
		offset+"="+strconv.Itoa(len(supervisor)),
		"HARPAGON_SOCKET="+s.socket(), "HARPAGON_MODEL="+m.Module.Model, "HARPAGON_MODULE="+m.Module.Name,
		"HARPAGON_MAX_BATCH="+strconv.Itoa(max(m.MaxBatch, 1)))
	if _, set := os.LookupEnv("OMP_NUM_THREADS"); !set && (m.Hardware == devices.CPU || m.Cores > 0) {
		s.cmd.Env = append(s.cmd.Env, "OMP_NUM_THREADS="+strconv.Itoa(max(m.Cores, 1)))
	}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.ExtraFiles = []*os.File{theirs}
	s.cmd.WaitDelay = time.Second // for what a command that is gone has left open
	s.cmd.SysProcAttr = ownGroup()
	if err := s.cmd.Start(); err != nil {
		_ = ours.Close()
		return err
	}
	s.life = ours
	go func() {
		_ = s.cmd.Wait() // how it ended is in ProcessState
		s.output.End()
		close(s.exited)
	}()
	return nil
}

// attach waits until the command serves.
func (s *server) attach(ctx context.Context, m executors.Model) error {
	client, err := s.dial(ctx)
	if err != nil {
		return err
	}
	target := remote.Target{Server: client, Where: s.command, Model: m.Module.Name, Timeout: s.options.RunTimeout}
	o := remote.Options{LoadTimeout: s.options.StartTimeout, HealthPeriod: s.options.HealthPeriod, MaxAnswer: s.options.MaxAnswer}
	s.model, err = remote.Attach(ctx, target, m, o)
	return err
}

// How often at most, and for how long, a command is asked whether it listens yet.
const (
	askAgain = 20 * time.Millisecond
	askTime  = 5 * time.Second
)

// dial waits until somebody listens on the socket, and finds out which protocol
// it is: who does not understand HTTP is asked over gRPC.
func (s *server) dial(ctx context.Context) (remote.Server, error) {
	for began := time.Now(); ; {
		client, err := s.try(ctx)
		if client != nil {
			return client, nil
		}
		if osutil.SleepAgain(ctx, began, askAgain, time.Second) != nil {
			return nil, fmt.Errorf("nothing answers on its socket within %v: %w", s.options.StartTimeout, err)
		}
	}
}

func (s *server) try(ctx context.Context) (remote.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if _, err := os.Stat(s.socket()); err != nil {
		return nil, errors.New("there is no socket")
	}
	web := oip.NewClient(oip.ClientOptions{URL: "http://localhost", Socket: s.socket(), MaxAnswer: int64(s.options.MaxAnswer)})
	err := web.Live(ctx)
	if err == nil {
		return web, nil
	}
	_ = web.Close()
	if !errors.Is(err, oip.ErrLost) {
		return nil, err
	}
	other, err := oipgrpc.NewClient(oipgrpc.ClientOptions{Socket: s.socket(), MaxAnswer: s.options.MaxAnswer})
	if err != nil {
		return nil, err
	}
	if err = other.Live(ctx); err == nil {
		return other, nil
	}
	_ = other.Close()
	return nil, err
}

func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// ends reports whether the command ends by itself about now.
func (s *server) ends() bool {
	timer := time.NewTimer(s.options.endTime)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}

// gone says how the command ended.
func (s *server) gone() error {
	how := "it ended"
	if state := s.cmd.ProcessState; state != nil {
		how = describe(state.ExitCode())
	}
	if line := s.output.Last(); line != "" {
		how += ", saying: " + line
	}
	return fmt.Errorf("%s: %s", s.command, how)
}

// kill ends the command at once.
func (s *server) kill() {
	_, _ = s.life.Write([]byte{0})
	s.awaitEnd(0)
}

// awaitEnd waits until the supervisor, which has so much time, has ended the command. Should it
// fail, it goes too, and on Linux takes the command with it.
func (s *server) awaitEnd(within time.Duration) {
	hard := time.AfterFunc(within+5*time.Second, func() { _ = s.cmd.Process.Kill() })
	<-s.exited
	hard.Stop()
}

// close ends the command and frees everything; it may be called more than once.
func (s *server) close() {
	s.closing.Do(func() {
		if s.model != nil {
			_ = s.model.Close()
		}
		_ = s.life.Close()
		s.awaitEnd(s.options.StopTimeout)
		_ = os.RemoveAll(s.folder)
	})
}
