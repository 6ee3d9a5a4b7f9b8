package apart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
