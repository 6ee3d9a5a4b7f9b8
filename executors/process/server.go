package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/remote"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/python"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
)

// server is a command that serves.
type server struct {
	*subprocess.Process
	command string // for errors
	folder  string // of the socket and Python's package; the supervisor makes and removes it
	options *Options
	model   *remote.Instance
}

// start starts the command and waits until its model is ready.
func start(ctx context.Context, o *Options, m executors.Model) (*server, error) {
	s := &server{command: m.Module.Command[0], folder: filepath.Join(os.TempDir(), "harpagon-"+rand.Text()), options: o}
	var err error
	if s.Process, err = subprocess.Start(s.launch(m)); err != nil {
		return nil, fmt.Errorf("executors/process: starting %s: %w", s.command, err)
	}
	if err := s.Greet(ctx, o.StartTimeout, func(ctx context.Context) error { return s.attach(ctx, m) }); err != nil {
		s.close()
		if strings.Contains(err.Error(), "No module named") || strings.Contains(err.Error(), "No such file") {
			err = fmt.Errorf("%w; files that the command needs besides those its arguments name are to be named in files = [...]", err)
		}
		return nil, fmt.Errorf("%s does not serve module %q: %w", s.command, m.Module.Name, err)
	}
	return s, nil
}

// socket is short: the path of a socket has about a hundred characters.
func (s *server) socket() string { return filepath.Join(s.folder, "s") }

// launch is how the command is started.
func (s *server) launch(m executors.Model) subprocess.Command {
	named := strings.NewReplacer("{socket}", s.socket(), "{model}", m.Module.Model, "{module}", m.Module.Name)
	c := subprocess.Command{
		Args: s.options.Supervisor, Output: s.options.Output, Prefix: "[process " + m.Module.Name + "] ", Grace: s.options.StopTimeout, Folder: s.folder, Holds: python.Files(),
		Env: []string{
			"HARPAGON_SOCKET=" + s.socket(), "HARPAGON_MODEL=" + m.Module.Model, "HARPAGON_MODULE=" + m.Module.Name,
			"HARPAGON_MAX_BATCH=" + strconv.Itoa(max(m.MaxBatch, 1)), "HARPAGON_BATCHES=" + joined(m.Batches),
			"HARPAGON_DEVICE=" + m.Device,
			"PYTHONPATH=" + strings.TrimSuffix(s.folder+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"), string(os.PathListSeparator)),
		},
	}
	c.Env = append(c.Env, s.options.Env...)
	if gpu := devices.Visible(m.Device); gpu != "" {
		c.Env = append(c.Env, "CUDA_VISIBLE_DEVICES="+gpu)
	}
	for _, a := range m.Module.Command {
		c.Run = append(c.Run, named.Replace(a))
	}
	if _, set := os.LookupEnv("OMP_NUM_THREADS"); !set && (m.Hardware == devices.CPU || m.Cores > 0) {
		c.Env = append(c.Env, "OMP_NUM_THREADS="+strconv.Itoa(max(m.Cores, 1)))
	}
	return c
}

// attach waits until the command serves.
func (s *server) attach(ctx context.Context, m executors.Model) error {
	client, err := s.dial(ctx)
	if err != nil {
		return err
	}
	target := remote.Target{Server: client, Where: s.command, Model: m.Module.Name, Timeout: s.options.RunTimeout, Here: !s.options.unshared}
	o := remote.Options{LoadTimeout: s.options.StartTimeout, HealthPeriod: s.options.HealthPeriod, MaxAnswer: s.options.MaxAnswer}
	s.model, err = remote.Attach(ctx, target, m, o)
	return err
}

// How often at most, and for how long, a command is checked for listening.
const (
	askAgain = 20 * time.Millisecond
	askTime  = 5 * time.Second
)

// dial waits until the command listens on the socket, and detects its protocol: HTTP first,
// then gRPC.
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

// gone reports how the command ended.
func (s *server) gone() error { return fmt.Errorf("%s: %s", s.command, s.Reason()) }

// close ends the command and frees everything; it may be called more than once.
func (s *server) close() {
	if s.model != nil {
		_ = s.model.Close()
	}
	s.Stop()
	_ = os.RemoveAll(s.folder) // the supervisor may have been killed
}

// joined are numbers with commas between them.
func joined(all []int) string {
	text := make([]string, len(all))
	for i, n := range all {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}
