// Package apart runs the embedded Temporal server in a process of its own, which is the same
// program started again.
//
// A gateway's requests take tenths of a millisecond each and one or two processors. Within
// one program Temporal's queues and its database take the same ones, for up to 10 ms at a time,
// before Go's scheduler gives the others their turn; of a process the kernel takes them at once.
// A server that fails leaves what serves alone, too, and is started again where it was.
//
// It is a child as of package subprocess, with the options as its orders, and answers once. What it
// prints is in the server's log.
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

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/sdk/local/embedded"
)

// Server is a Temporal server in a child process.
type Server struct {
	options embedded.Options // with the addresses that it has
	log     io.WriteCloser
	word    word
	cancel  context.CancelFunc // no further starts: Stop was called, which holds mu then
	kept    chan struct{}      // closed when the last child has ended

	mu    sync.Mutex
	child *subprocess.Process
}

// word is a child's only answer: its addresses when it serves, or an error.
type word struct {
	Address, UI, Error string
}

// A server that ended by itself is started again at once, and later the oftener it ends before
// it has settled or does not start.
const settled = time.Minute

var retry = executors.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// Start starts this program again as a server and returns when that answers; main must call
// Serve first, as local.ChildMain does. ctx bounds the start only. A server
// that ends by itself is started again, at the same addresses.
func Start(ctx context.Context, o embedded.Options) (_ *Server, err error) {
	s := &Server{options: o, log: nothing{io.Discard}, kept: make(chan struct{})}
	if o.LogFile != "" {
		if s.log, err = osutil.OpenLog(o.LogFile); err != nil {
			return nil, fmt.Errorf("apart: %w", err)
		}
	}
	if s.child, s.word, err = s.spawn(ctx); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	s.options.FrontendAddr, s.options.UIAddr = s.word.Address, strings.TrimPrefix(s.word.UI, "http://")
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.keep(ctx)
	return s, nil
}

// nothing is a log that is kept nowhere.
type nothing struct{ io.Writer }

func (nothing) Close() error { return nil }

// keep starts a child again whenever one has ended, until Stop is called.
func (s *Server) keep(ctx context.Context) {
	defer close(s.kept)
	failures := 0
	for {
		began := time.Now()
		<-s.current().Ended()
		if ctx.Err() != nil {
			return
		}
		s.note("the Temporal server ended by itself: " + s.current().End())
		if time.Since(began) > settled {
			failures = 0
		}
		for started := false; !started; failures++ {
			if osutil.SleepTimer(ctx, retry.After(failures)) != nil {
				return
			}
			started = s.again(ctx)
		}
	}
}

func (s *Server) again(ctx context.Context) bool {
	next, _, err := s.spawn(ctx)
	if err != nil {
		s.note("the Temporal server does not start again: " + err.Error())
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = next
	if ctx.Err() != nil {
		next.HangUp() // Stop has not seen it
	}
	return true
}

func (s *Server) current() *subprocess.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// note appends a line to the server's log.
func (s *Server) note(line string) {
	fmt.Fprintf(s.log, "%s\t%s\n", time.Now().Format(time.RFC3339), line)
}

// Address is where Temporal clients connect to, HOST:PORT.
func (s *Server) Address() string { return s.word.Address }

// UIURL is where people look; empty without UI.
func (s *Server) UIURL() string { return s.word.UI }

// PID is the number of the process that runs just now.
func (s *Server) PID() int { return s.current().PID() }

// Stop ends the server, which writes all that it holds, and waits for it. Stop its clients
// and workers first.
func (s *Server) Stop() error {
	s.mu.Lock()
	s.cancel()
	last := s.child
	s.mu.Unlock()
	last.Stop()
	<-s.kept
	last = s.current() // which may just have been started
	last.Stop()
	if !last.Succeeded() {
		return errors.Join(fmt.Errorf("apart: stopping the Temporal server: %s", last.End()), s.log.Close())
	}
	return s.log.Close()
}

// role is what a child is to be.
const role = "a Temporal server"

// Serve is a server until its parent ends it or is gone, in a process that Start started;
// there it does not return. Elsewhere it does nothing.
func Serve() {
	if subprocess.Requested() != role {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var o embedded.Options
	parent, err := subprocess.Begin(&o)
	if err != nil {
		return err
	}
	osutil.FollowProcessors(ctx)
	s, err := embedded.Start(ctx, o)
	w := word{}
	if err != nil {
		w.Error = err.Error()
	} else {
		w.Address, w.UI = s.Address(), s.UIURL()
	}
	if told := json.NewEncoder(parent.Answers).Encode(w); err != nil || told != nil {
		return errors.Join(err, told)
	}
	parent.Wait()
	return s.Stop()
}

// stopWithin is how long a server may take to write what it holds.
const stopWithin = 30 * time.Second

// spawn starts a child and waits for its word.
func (s *Server) spawn(ctx context.Context) (p *subprocess.Process, w word, err error) {
	o := s.options
	if o.LogFile != "" {
		o.LogFile = "stderr" // which is forwarded to the log
	}
	p, err = subprocess.Start(subprocess.Command{Role: role, Orders: o, Output: s.log, Grace: stopWithin})
	if err == nil {
		err = p.Greet(ctx, 0, func(context.Context) error { return json.NewDecoder(p.Answers).Decode(&w) })
	}
	switch {
	case err != nil:
		return nil, w, fmt.Errorf("apart: starting a process for Temporal: %w", err)
	case w.Error != "":
		p.Stop()
		return nil, w, errors.New(w.Error)
	}
	return p, w, nil
}
