package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// processes is the driver that starts workers on this machine.
type processes struct {
	records
	flags   []string
	program string
	grace   time.Duration // between SIGTERM and SIGKILL

	mu  sync.Mutex
	own map[string]<-chan struct{} // closed when a process that was started here has ended, by host
}

const (
	// defaultGrace is how long a worker that is told to end may take: its notice, and the
	// time in which its executors finish what they hold.
	defaultGrace = time.Minute

	// lookEvery is the pace at which a process that is about to end is looked at.
	lookEvery = 50 * time.Millisecond

	// once has a shell wait for a word before it becomes the worker, so that none runs
	// whose number is not on file: it ends when this process is killed before.
	once = `read -r go && [ "$go" = go ] && exec "$@"`
)

// Create starts a worker of that name, in a process group of its own, that goes on when
// this process ends.
func (p *processes) Create(_ context.Context, name string) error {
	made := record{Since: time.Now()}
	err := p.start(name, &made)
	if err != nil {
		made.Failure = err.Error()
	}
	return errors.Join(err, p.write(name, made))
}

func (p *processes) start(name string, made *record) error {
	if err := p.write(name, *made); err != nil {
		return err
	}
	log, err := os.OpenFile(p.log(name), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	defer log.Close()
	args := append([]string{"-c", once, "sh", p.program, "worker", "--name", name}, p.flags...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // why it ended stands in its log
	}()
	p.mu.Lock()
	p.own[name] = ended
	p.mu.Unlock()
	made.PID, made.Made = cmd.Process.Pid, true
	if made.Started = began(made.PID); made.Started == "" {
		return fmt.Errorf("hosts: the process of %s ended at once%s", name, quoted(p.said(name)))
	}
	if err := p.write(name, *made); err != nil {
		return err // without its word the shell ends
	}
	_, err = gate.Write([]byte("go\n"))
	return errors.Join(err, gate.Close())
}

func (p *processes) log(name string) string { return filepath.Join(p.folder, name+".log") }

// said is what the worker wrote last.
func (p *processes) said(name string) string {
	const most = 4 << 10
	f, err := os.Open(p.log(name))
	if err != nil {
		return ""
	}
	defer f.Close()
	end := make([]byte, most)
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	n, _ := f.ReadAt(end, max(0, info.Size()-most))
	return lastLine(end[:n])
}

// lives reports whether the process on file runs: another that was given its number since
// is not it.
func lives(of record) bool {
	return of.PID > 0 && of.Started != "" && began(of.PID) == of.Started
}

// Delete tells the worker to end, and kills its group when it does not.
func (p *processes) Delete(ctx context.Context, name string) error {
	of, known, err := p.read(name)
	if err != nil || !known {
		return err
	}
	if lives(of) {
		of.Going = true
		if err := p.write(name, of); err != nil {
			return err
		}
		if err := p.end(ctx, name, of); err != nil {
			return err
		}
	}
	if err := osutil.RemoveLog(p.log(name)); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	return p.forget(name)
}

func (p *processes) end(ctx context.Context, name string, of record) error {
	_ = syscall.Kill(of.PID, syscall.SIGTERM)
	killed := time.After(p.grace)
	for lives(of) {
		select {
		case <-time.After(lookEvery):
		case <-killed:
			_ = syscall.Kill(-of.PID, syscall.SIGKILL)
			killed = nil
		case <-ctx.Done():
			return fmt.Errorf("hosts: the process %d of %s has not ended yet", of.PID, name)
		}
	}
	_ = syscall.Kill(-of.PID, syscall.SIGKILL) // what it has left behind
	p.mu.Lock()
	ended := p.own[name]
	delete(p.own, name)
	p.mu.Unlock()
	if ended != nil {
		<-ended
	}
	return nil
}

// List says of a process that runs no more what it wrote last, and bounds the logs of the
// others.
func (p *processes) List() ([]HostRecord, error) {
	return p.list(func(name string, of record) string {
		if lives(of) {
			_ = osutil.TrimLog(p.log(name)) // what does not go now goes with the next look
			return ""
		}
		return strings.TrimSuffix("its process has ended"+quoted(p.said(name)), ": ")
	})
}

// commands is the driver that runs programs.
type commands struct {
	records
	Commands
}

// Create runs the command. What is half made, because it failed or because this process
// was killed meanwhile, is for Delete.
func (c *commands) Create(ctx context.Context, name string) error {
	made := record{Since: time.Now()}
	if err := c.write(name, made); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Create, name); err != nil {
		made.Failure = err.Error()
		_ = c.write(name, made) // it is told of now, and without the file later
		return err
	}
	made.Made = true
	return c.write(name, made)
}

// Delete runs the command and forgets the host when that has succeeded.
func (c *commands) Delete(ctx context.Context, name string) error {
	of, known, err := c.read(name)
	if err != nil || !known {
		return err
	}
	of.Going = true
	if err := c.write(name, of); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Delete, name); err != nil {
		return err
	}
	return c.forget(name)
}

// List says of a host whose command has neither succeeded nor failed that it was not
// finished; while it runs, who has called Create knows better.
func (c *commands) List() ([]HostRecord, error) {
	return c.list(func(_ string, of record) string {
		if of.Made {
			return ""
		}
		return "the command that creates it was not finished"
	})
}

// outputKept is how much of what a command writes is looked at for its reason.
const outputKept = 64 << 10

// run runs a command for a host, in a process group of its own that ends with it, or
// when its time is over, or on Linux when this process is killed.
func (c *commands) run(ctx context.Context, command []string, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	runtime.LockOSThread() // on Linux the command ends with the thread that started it
	defer runtime.UnlockOSThread()
	var said tail
	cmd := exec.CommandContext(ctx, command[0], append(append([]string(nil), command[1:]...), name)...)
	cmd.SysProcAttr = boundGroup()
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for whoever has left the group and holds its output
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command has left behind
	}
	switch why := lastLine(said.kept); {
	case err == nil:
		return nil
	case ctx.Err() != nil && context.Cause(ctx) == context.DeadlineExceeded:
		return fmt.Errorf("%s was ended after %v, its limit%s", strings.Join(command, " "), c.Limit, quoted(why))
	default:
		return fmt.Errorf("%s: %w%s", strings.Join(command, " "), err, quoted(why))
	}
}

func quoted(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = slices.Delete(t.kept, 0, max(0, len(t.kept)-outputKept))
	return len(p), nil
}
