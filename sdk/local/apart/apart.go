// Package apart runs the embedded Temporal server in a process of its own, which is the same
// program started again.
//
// A gateway's requests take tenths of a millisecond each and one or two processors. Within
// one program Temporal's queues and its database take the same ones, for up to 10 ms at a time,
// before Go's scheduler gives the others their turn; of a process the kernel takes them at once.
// A server that fails leaves what serves alone, too, and is started again where it was.
//
// The child gets its options on standard input, answers once on a pipe, and ends when standard
// input does, so with whoever started it. What it prints is in the server's log.
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/sdk/local/embedded"
)

// Server is a Temporal server in a child process.
type Server struct {
	options embedded.Options // with the addresses that it has
	word    word
	cancel  context.CancelFunc // no further starts: Stop was called, which holds mu then
	kept    chan struct{}      // closed when the last child has ended

	mu    sync.Mutex
	child *process
}

// word is what a child says when it serves, or why it does not.
type word struct {
	Address, UI, Error string
}

// A server that ended by itself is started again at once, and later the oftener it ends soon
// after or does not start.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	settled      = time.Minute // up for so long, it counts as started
	lookEvery    = 10 * time.Second
)

// Start starts this program again as a server and returns when that answers; main must call
// Serve first when Requested, as local.ChildMain does. ctx bounds the start only. A server
// that ends by itself is started again, at the same addresses.
func Start(ctx context.Context, o embedded.Options) (*Server, error) {
	first, w, err := spawn(ctx, o)
	if err != nil {
		return nil, err
	}
	o.FrontendAddr, o.UIAddr = w.Address, strings.TrimPrefix(w.UI, "http://")
	s := &Server{options: o, word: w, child: first, kept: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.keep(ctx)
	return s, nil
}

// keep starts a child anew whenever one has ended, until Stop is called.
func (s *Server) keep(ctx context.Context) {
	defer close(s.kept)
	pause := time.Duration(0)
	for {
		began := time.Now()
		s.await(s.current())
		if ctx.Err() != nil {
			return
		}
		s.note("the Temporal server ended by itself: " + s.current().end())
		if time.Since(began) > settled {
			pause = 0
		}
		for started := false; !started; {
			if osutil.SleepTimer(ctx, pause) != nil {
				return
			}
			pause = min(max(2*pause, firstPause), longestPause)
			started = s.again(ctx) == nil
		}
	}
}

// await waits for a child's end, and bounds the log, to which it writes, too.
func (s *Server) await(child *process) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-child.exited:
			return
		case <-look.C:
			if s.options.LogFile != "" {
				_ = osutil.TrimLog(s.options.LogFile) // what does not go now goes with the next look
			}
		}
	}
}

func (s *Server) again(ctx context.Context) error {
	next, _, err := spawn(ctx, s.options)
	if err != nil {
		s.note("the Temporal server does not start again: " + err.Error())
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = next
	if ctx.Err() != nil {
		next.hangUp() // Stop has not seen it
	}
	return nil
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// note appends a line to the server's log.
func (s *Server) note(line string) {
	if log := logFile(s.options.LogFile); log != nil {
		fmt.Fprintf(log, "%s\t%s\n", time.Now().Format(time.RFC3339), line)
		_ = log.Close()
	}
}

// Address is where Temporal clients connect to, HOST:PORT.
func (s *Server) Address() string { return s.word.Address }

// UIURL is where people look; empty without UI.
func (s *Server) UIURL() string { return s.word.UI }

// PID is the number of the process that runs just now.
func (s *Server) PID() int { return s.current().cmd.Process.Pid }

// Stop ends the server, which writes all that it holds, and waits for it. Stop its clients
// and workers first.
func (s *Server) Stop() error {
	s.mu.Lock()
	s.cancel()
	last := s.child
	s.mu.Unlock()
	err := last.stop()
	<-s.kept
	if next := s.current(); next != last {
		err = next.stop() // it had just been started
	}
	return err
}

// marker tells a program to be a server.
const marker = "HARPAGON_TEMPORAL_CHILD"

// answerFile is where the child says its word: after its standard files, on which anything
// in the server may print.
const answerFile = 3

// Requested is true in a process that Start started.
func Requested() bool { return os.Getenv(marker) != "" }

// Serve is a server until standard input ends, then the process ends. It does not return.
func Serve() {
	if err := serve(os.Stdin, os.NewFile(answerFile, "answer")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(in io.Reader, answer io.WriteCloser) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settle(ctx)
	var o embedded.Options
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("apart: the options of a Temporal server: %w", err)
	}
	s, err := embedded.Start(ctx, o)
	w := word{}
	if err != nil {
		w.Error = err.Error()
	} else {
		w.Address, w.UI = s.Address(), s.UIURL()
	}
	if told := errors.Join(json.NewEncoder(answer).Encode(w), answer.Close()); err != nil || told != nil {
		return errors.Join(err, told)
	}
	_, _ = io.Copy(io.Discard, in)
	return s.Stop()
}

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
