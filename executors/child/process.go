package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
)

// process is a child that has said hello. call is used by one goroutine at a
// time, and before any batch; everything else by any.
type process struct {
	engine, module string
	device         string // empty for any
	options        *Options
	word           hello

	cmd      *exec.Cmd
	output   *osutil.Lines
	requests *os.File
	replies  *os.File
	life     *os.File
	in       reader
	shared   *shared // nil where there is none, or the child does not see it
	line     line

	exited    chan struct{} // closed when the child is gone and its output read
	timer     *time.Timer   // kills the child when a call takes too long
	late      atomic.Bool   // the timer has
	givenUp   atomic.Bool   // the caller's context has ended and killed it
	lineEnded sync.Once
}

// start starts a child and waits for its hello.
func start(ctx context.Context, engine, module, device string, o *Options) (*process, error) {
	if Requested() {
		return nil, errors.New("child: this process was itself started to serve an engine; call child.Serve first in main when child.Requested()")
	}
	p := &process{engine: engine, module: module, device: device, options: o, exited: make(chan struct{})}
	if err := p.spawn(); err != nil {
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, err)
	}
	p.timer = time.AfterFunc(o.StartTimeout, p.tooLate)
	stop := context.AfterFunc(ctx, p.abandon)
	k, body, err := p.in.read()
	stop()
	p.timer.Stop()
	if err == nil && k == kindHello {
		err = json.Unmarshal(body, &p.word)
	}
	if err == nil && p.word.Protocol != protocol {
		err = fmt.Errorf("it speaks version %d of the protocol, not %d", p.word.Protocol, protocol)
	}
	if err == nil {
		return p, nil
	}
	p.kill()
	p.close()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, context.Cause(ctx))
	}
	reason := p.end()
	if p.late.Load() {
		reason = fmt.Sprintf("no sign of life within %v", o.StartTimeout)
	}
	return nil, fmt.Errorf("child: %s did not become a process for engine %q (%s); its main must call child.Serve first when child.Requested()",
		p.cmd.Path, engine, reason)
}

// spawn starts the program with its pipes. The goroutine that watches it keeps
// its thread, because on Linux the child ends with the thread that started it.
func (p *process) spawn() error {
	command := p.options.Command
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		command = []string{self}
	}
	theirs, err := p.connect()
	if err == nil {
		p.output = osutil.NewLines(p.options.Output, fmt.Sprintf("[%s %s] ", p.engine, p.module))
		p.cmd = exec.Command(command[0], command[1:]...)
		p.cmd.Env = environment(os.Environ(), p.options.Env, p.engine, p.device)
		p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
		p.cmd.ExtraFiles = theirs
		p.cmd.WaitDelay = p.options.CloseTimeout
		endWithParent(p.cmd)
		started := make(chan error)
		go p.watch(started)
		err = <-started
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		p.hangUp()
		p.shared.close()
	}
	return err
}

// environment of a child. Its C library is asked for huge pages, unless it was
// told something else already: an engine reads all its weights for every batch,
// and this makes up for what the way to another process costs. Where it is to
// run on a GPU, it sees that one only.
func environment(ours, own []string, engine, device string) []string {
	const tunables, hugePages = "GLIBC_TUNABLES=", "glibc.malloc.hugetlb=1"
	env := append(slices.Clone(ours), "GOMAXPROCS=1")
	if !slices.ContainsFunc(ours, func(v string) bool { return strings.HasPrefix(v, tunables) }) {
		env = append(env, tunables+hugePages)
	}
	if gpu := devices.Visible(device); gpu != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+gpu)
	}
	return append(append(env, own...), marker+"="+engine)
}

// readSize holds the frames of most batches, whose data lie elsewhere.
const readSize = 16 << 10

// connect makes the pipes and, where that can be had, the shared memory, and
// returns the child's ends in the order of its files.
func (p *process) connect() (theirs []*os.File, err error) {
	for i := range lifeFile - requestFile + 1 {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		widen(w)
		switch requestFile + i {
		case requestFile:
			p.requests, theirs = w, append(theirs, r)
		case replyFile:
			p.replies, theirs = r, append(theirs, w)
		case lifeFile:
			p.life, theirs = w, append(theirs, r)
		}
	}
	p.in = reader{from: bufio.NewReaderSize(p.replies, readSize), most: p.options.MaxMessage}
	if p.options.Pipe {
		return theirs, nil
	}
	s, file, err := newShared(p.options.MaxMessage)
	if err != nil {
		return theirs, nil // tensors take the pipes
	}
	p.shared = s
	return append(theirs, file), nil
}

func (p *process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore := sleepLoosely()
	err := p.cmd.Start()
	restore()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.output.End()
	close(p.exited)
}

// call sends a frame and reads the answer. An error means that the child is
// gone or must be taken for gone; what is wrong with the request itself is an
// answer of kindFailed.
func (p *process) call(ctx context.Context, within time.Duration, frame []byte) (k kind, body []byte, err error) {
	err = p.timed(ctx, within, func() error {
		if err := writeFrame(p.requests, frame, p.options.MaxMessage); err != nil {
			return err
		}
		k, body, err = p.in.read()
		return err
	})
	return k, body, err
}

// timed kills the child should what is done with it take too long, or its caller
// stop waiting.
func (p *process) timed(ctx context.Context, within time.Duration, do func() error) error {
	p.timer.Reset(within)
	stop := context.AfterFunc(ctx, p.abandon)
	err := do()
	// What could not be stopped kills the child, even after its answer.
	if !p.timer.Stop() {
		p.late.Store(true)
	}
	if !stop() {
		p.givenUp.Store(true)
	}
	return err
}

// gone says why a call failed, after waiting for the end of the child.
func (p *process) gone(ctx context.Context, within time.Duration, err error) *wire.Error {
	doing := fmt.Sprintf("engine %q in a child process", p.engine)
	if errors.Is(err, errTooLarge) || p.alive() && !endOfLine(err) {
		p.kill()
		<-p.exited
		return wire.Errorf(wire.CodeUnavailable, p.module, "%s: %v", doing, err)
	}
	p.waitOrKill()
	switch {
	case p.late.Load():
		return wire.Errorf(wire.CodeUnavailable, p.module, "%s did not answer within %v and was killed", doing, within)
	case p.givenUp.Load():
		code := wire.CodeUnavailable
		if errors.Is(ctx.Err(), context.Canceled) {
			code = wire.CodeCanceled
		}
		return wire.Errorf(code, p.module, "%s was killed because its caller stopped waiting: %v", doing, context.Cause(ctx))
	}
	return wire.Errorf(wire.CodeUnavailable, p.module, "%s ended while it computed: %s", doing, p.end())
}

// dead is true when the child has been told to die although it answered.
func (p *process) dead() bool { return p.late.Load() || p.givenUp.Load() }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end is the exit status, with the panic where one was printed.
func (p *process) end() string {
	s := "it ended"
	if p.cmd.ProcessState != nil {
		s = p.cmd.ProcessState.String()
	}
	if crash := p.output.Crash(); crash != "" {
		s += ", " + crash
	}
	return s
}

func (p *process) tooLate() { p.late.Store(true); p.kill() }
func (p *process) abandon() { p.givenUp.Store(true); p.kill() }
func (p *process) kill()    { _ = p.cmd.Process.Kill() }

// hangUp closes the line, which tells the child to end.
func (p *process) hangUp() {
	p.lineEnded.Do(func() {
		for _, f := range []*os.File{p.life, p.requests, p.replies} {
			if f != nil {
				_ = f.Close()
			}
		}
	})
}

// waitOrKill waits for a child that is about to end, and makes sure that it does.
func (p *process) waitOrKill() {
	timer := time.AfterFunc(p.options.CloseTimeout, p.kill)
	<-p.exited
	timer.Stop()
}

// close ends the child and frees everything; it may be called more than once.
func (p *process) close() {
	p.hangUp()
	p.waitOrKill()
	p.shared.close()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// version of an engine that the child serves; ok is false when there is none.
func (p *process) version(engine string) (version string, ok bool) {
	at := slices.IndexFunc(p.word.Engines, func(e engineInfo) bool { return e.Name == engine })
	if at < 0 {
		return "", false
	}
	return p.word.Engines[at].Version, true
}

// isBroken is true when the reading end of a pipe is gone.
func isBroken(err error) bool { return errors.Is(err, syscall.EPIPE) }
