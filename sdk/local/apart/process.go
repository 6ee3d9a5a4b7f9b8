package apart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/sdk/local/embedded"
)

// How long a server may take to end: to write what it holds, or when it did not start.
const (
	stopWithin = 30 * time.Second
	failWithin = 2 * time.Second
)

// process is a child.
type process struct {
	cmd    *exec.Cmd
	log    *os.File // nil where nothing is kept
	output *osutil.Lines
	line   io.WriteCloser // standard input; closing it ends the child
	once   sync.Once
	exited chan struct{} // closed when the child is gone
}

// spawn starts a child and waits for its word.
func spawn(ctx context.Context, o embedded.Options) (p *process, w word, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, w, fmt.Errorf("apart: %w", err)
	}
	p = &process{cmd: exec.Command(self), log: logFile(o.LogFile), exited: make(chan struct{})}
	p.output = osutil.NewLines(discarded(p.log), "")
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), marker+"=1"), p.output, p.output
	p.cmd.SysProcAttr = ofItsOwn()
	answer, err := p.start()
	if err != nil {
		return nil, w, fmt.Errorf("apart: starting a process for Temporal: %w", err)
	}
	stop := context.AfterFunc(ctx, p.kill)
	if err = json.NewEncoder(p.line).Encode(o); err == nil {
		err = json.NewDecoder(answer).Decode(&w)
	}
	_ = answer.Close()
	stop()
	if err == nil && w.Error == "" {
		return p, w, nil
	}
	if ctx.Err() != nil {
		p.kill()
	}
	p.await(failWithin)
	switch {
	case w.Error != "":
		return nil, w, errors.New(w.Error)
	case ctx.Err() != nil:
		return nil, w, fmt.Errorf("apart: starting a process for Temporal: %w", context.Cause(ctx))
	}
	return nil, w, fmt.Errorf("apart: %s did not become a Temporal server (%s); its main must call local.ChildMain first", self, p.end())
}

// start starts the child with its pipes. The goroutine that waits for it keeps its thread:
// on Linux a child ends with the thread that started it.
func (p *process) start() (answer *os.File, err error) {
	answer, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.ExtraFiles = []*os.File{theirs}
	if p.line, err = p.cmd.StdinPipe(); err == nil {
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := p.cmd.Start()
			started <- err
			if err != nil {
				return
			}
			_ = p.cmd.Wait() // how it ended is in ProcessState
			p.output.End()
			if p.log != nil {
				_ = p.log.Close()
			}
			close(p.exited)
		}()
		err = <-started
	}
	_ = theirs.Close()
	if err != nil {
		_ = answer.Close()
	}
	return answer, err
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) hangUp() { p.once.Do(func() { _ = p.line.Close() }) }

// await tells the child to end, and kills it when that takes too long.
func (p *process) await(within time.Duration) {
	p.hangUp()
	timer := time.AfterFunc(within, p.kill)
	defer timer.Stop()
	<-p.exited
}

// stop ends the child in good order, and by force where that takes too long.
func (p *process) stop() error {
	p.await(stopWithin)
	if p.cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("apart: stopping the Temporal server: %s", p.end())
}

// end is how the child ended, with the panic where one was printed.
func (p *process) end() string {
	said := p.cmd.ProcessState.String()
	if crash := p.output.Crash(); crash != "" {
		said += ", " + crash
	}
	return said
}

// settle prepares a child. When to end is for whoever started it to say, who may have to
// drain first; a signal to all processes of a service or a terminal reaches the child, too.
func settle(ctx context.Context) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	_ = os.Unsetenv(marker)
	osutil.FollowProcessors(ctx)
}

// logFile is the log, to append to; nil where there is none.
func logFile(name string) *os.File {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil
	}
	return f
}

func discarded(log *os.File) io.Writer {
	if log == nil {
		return io.Discard
	}
	return log
}
