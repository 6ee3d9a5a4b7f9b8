// Package subprocess is the one supervisor of processes: it starts them, keeps them no longer
// than this one, and reports how they ended.
//
// Engines, commands of users that serve a model, and Temporal's server have processes of
// their own, so that a crash takes down nothing else. Whether one that has ended is started
// again is for the caller to decide.
//
// # Programs of ours
//
// Most are this program, started again: Command.Role names its role, its main calls
// Requested for it, and Begin takes it on. Two pipes join them. The one to the child
// carries its orders, and closes when it is to end: also when the parent ends, even when
// killed, and on Linux the kernel kills the child then, too. The other one carries its
// answers. Signals to all processes of a service or of a terminal are handled by the
// parent, which may have to drain first.
//
// # Commands of others
//
// A foreign command has no such pipes. Command.Run has a supervisor between: this program,
// started again (see Supervise). It starts the command in a group of its own and waits for
// its end, or for that of the pipe. Then it ends the whole group, with SIGTERM first and
// SIGKILL after a while, and on Linux also what has left the group. So nothing outlives
// this process.
//
// Process groups need a Unix.
package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Command states what is started.
type Command struct {
	Role   string        // what the program is to be
	Args   []string      // program and arguments; empty: this program without arguments
	Orders any           // for the child's Begin, as JSON
	Run    []string      // a command of others, instead of Role and Orders
	Folder string        // such a command's own, which the supervisor makes and removes; empty: none
	Holds  Contents      // of the folder
	Env    []string      // beside this process's
	Files  []*os.File    // for the child, see Parent.File; Start closes them
	Output io.Writer     // gets what it prints, line by line; nil means os.Stderr
	Prefix string        // of its lines
	Grace  time.Duration // between SIGTERM and SIGKILL
}

// Contents are files by their paths, with slashes.
type Contents map[string]string

// Process is a child.
type Process struct {
	Answers *os.File // see Parent

	cmd        *exec.Cmd
	line       *os.File // to the child
	output     *lines
	role       string
	grace      time.Duration
	supervised bool
	ended      chan struct{} // closed when the child is gone and its output read

	mu     sync.Mutex
	hungUp bool
	cause  error // why it was killed
}

const (
	// ordersTime is for a child to take its orders, which a pipe holds but for very long ones.
	ordersTime = 20 * time.Second

	// ownTime is what a supervisor may take for itself, and what is waited for output that a
	// child has left open to others.
	ownTime = time.Second
)

// Start starts a child.
func Start(c Command) (*Process, error) {
	defer closeAll(c.Files)
	if role := Requested(); role != "" {
		return nil, fmt.Errorf("this process was itself started to be %s, but its main does not call local.ChildMain first; add that call", role)
	}
	p := &Process{output: newLines(c.Output, c.Prefix), grace: c.Grace, supervised: len(c.Run) > 0, ended: make(chan struct{})}
	if p.supervised {
		c.Role, c.Orders = supervisor, command{c.Run, c.Grace, c.Folder, c.Holds}
	}
	p.role = c.Role
	orders, err := json.Marshal(c.Orders)
	if err != nil {
		return nil, err
	}
	if len(c.Args) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c.Args = []string{self}
	}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.cmd.Env = append(append(os.Environ(), c.Env...), marker+"="+c.Role)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = ownTime
	p.cmd.SysProcAttr = attributes(!p.supervised) // a supervisor has to outlive this process for a moment
	if err := p.spawn(c.Files); err != nil {
		return nil, err
	}
	_ = p.line.SetWriteDeadline(time.Now().Add(ordersTime))
	if _, err := p.line.Write(append(orders, '\n')); errors.Is(err, os.ErrDeadlineExceeded) {
		p.Kill(errors.New("it does not take its orders"))
	} // what else there is shows in how it ends
	return p, nil
}

// spawn starts the program with its pipes.
func (p *Process) spawn(files []*os.File) (err error) {
	theirs := make([]*os.File, firstFile-lineFile)
	defer closeAll(theirs)
	if theirs[0], p.line, err = os.Pipe(); err == nil {
		p.Answers, theirs[1], err = os.Pipe()
	}
	if err == nil {
		p.cmd.ExtraFiles = slices.Concat(theirs, files)
		started := make(chan error)
		go p.watch(started)
		err = <-started
	}
	if err != nil {
		closeAll([]*os.File{p.line, p.Answers})
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nil, too
	}
}

// watch keeps its thread: on Linux a child ends with the thread that started it.
func (p *Process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.output.End()
	close(p.ended)
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the child is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive is true until then.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// EndsWithin waits so long for the child's end.
func (p *Process) EndsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// endsSoon is for a child to end that has hung up: a few milliseconds, and more on a busy machine.
const endsSoon = 2 * time.Second

// Greet waits for a child's first answer by greet, whose context ends with the child, with
// ctx, and after within unless that is 0; in the last two cases a child of ours, which has
// nothing to lose yet, is killed. Where greet fails the child is stopped, and the error has
// the reason.
func (p *Process) Greet(ctx context.Context, within time.Duration, greet func(context.Context) error) error {
	timely := ctx
	if within > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no sign of life within %v", within))
		defer cancel()
		timely = limited
	}
	watched, over := context.WithCancel(timely)
	defer over()
	go func() {
		select {
		case <-p.ended:
			over()
		case <-watched.Done():
		}
	}()
	if !p.supervised {
		defer context.AfterFunc(watched, func() { p.Kill(context.Cause(watched)) })()
	}
	err := greet(watched)
	if err == nil {
		return nil
	}
	itself := !p.Alive() || timely.Err() == nil && p.EndsWithin(endsSoon)
	p.Stop()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case itself && !p.supervised:
		return fmt.Errorf("%s did not become %s (%s); its main must call local.ChildMain first", p.cmd.Path, p.role, p.End())
	case itself || p.Cause() != nil:
		return errors.New(p.Reason())
	}
	return err
}

// Kill ends the child at once; the first reason is returned by End. Of one that has ended
// no reason is kept.
func (p *Process) Kill(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Alive() {
		return
	}
	if p.cause == nil {
		p.cause = why
	}
	switch {
	case !p.supervised:
		_ = p.cmd.Process.Kill()
	case !p.hungUp: // who has hung up is being ended
		_ = p.line.SetWriteDeadline(time.Now().Add(ownTime))
		_, _ = p.line.Write([]byte(atOnce))
		p.hangUp(0)
	}
}

// HangUp has the child end, and kills it when that takes longer than its grace.
func (p *Process) HangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUp(p.grace)
}

func (p *Process) hangUp(within time.Duration) {
	if p.hungUp {
		return
	}
	p.hungUp = true
	_ = p.line.Close()
	if p.supervised {
		within += 5 * ownTime // the supervisor has killed the command by then
	}
	go func() {
		if !p.EndsWithin(within) {
			_ = p.cmd.Process.Kill()
		}
	}()
}

// Stop is HangUp, and waits for the child's end. It may be called more than once.
func (p *Process) Stop() {
	p.HangUp()
	<-p.ended
	_ = p.Answers.Close()
}

// Cause is why Kill was called; nil where it was not, or too late.
func (p *Process) Cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// End reports how the child ended: why it was killed, or its exit status with the panic or else the
// last line that it printed.
func (p *Process) End() string {
	state := p.cmd.ProcessState
	switch why := p.Cause(); {
	case why != nil:
		return why.Error()
	case state == nil:
		return "it ended"
	}
	said := state.String()
	if code := state.ExitCode(); p.supervised && code > exitSignal {
		said = "signal: " + syscall.Signal(code-exitSignal).String()
	}
	if crash := p.output.Crash(); crash != "" {
		return said + ", " + crash
	}
	if last := p.output.Last(); last != "" {
		return said + ", saying: " + last
	}
	return said
}

// Reason is End as a sentence: "it ended with exit status 3".
func (p *Process) Reason() string {
	if p.Cause() != nil {
		return p.End()
	}
	return "it ended with " + p.End()
}

// Succeeded is true of a child that has ended as it should.
func (p *Process) Succeeded() bool { return p.cmd.ProcessState.Success() }
