package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// New returns the engine "process".
func New(o Options) executors.Engine { return &engine{options: o.withDefaults()} }

type engine struct{ options Options }

// Name is "process".
func (e *engine) Name() string { return pipelines.EngineProcess }

// Version changes with how commands are started and asked.
func (e *engine) Version() string { return "1" }

// Load starts the command and waits until it serves. ctx bounds the loading
// only; the command lives until Close.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if len(m.Module.Command) == 0 {
		return nil, fmt.Errorf("module %q has no command to start; set command = [\"PROGRAM\", ...]", m.Module.Name)
	}
	in := &instance{options: &e.options, model: m, changed: make(chan struct{})}
	s, err := start(ctx, &e.options, m)
	if err != nil {
		return nil, err
	}
	in.signature = s.model.Signature()
	in.life, in.stop = context.WithCancel(context.Background())
	in.put(s, nil)
	in.keeping.Go(in.keep)
	return in, nil
}

// Options say how commands are started. The zero value is ready to use.
type Options struct {
	// Supervisor starts a program whose main calls Supervise first; empty: this program.
	Supervisor []string

	// Output gets what commands print, line by line, each with a prefix that
	// names the module; nil means os.Stderr. Several commands may write at once.
	Output io.Writer

	StartTimeout time.Duration // until the model is ready; 0 means 2 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	StopTimeout  time.Duration // between SIGTERM and SIGKILL; 0 means 5 s
	HealthPeriod time.Duration // see remote.Options
	MaxAnswer    int           // see remote.Options

	Retry executors.Backoff // between starts; zero means the executors' own

	endTime time.Duration // for a command to end that has failed a batch; 0 means 2 s
}

// The defaults of Options.
const (
	defaultStartTimeout = 2 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultStopTimeout  = 5 * time.Second

	// One that ends takes a few milliseconds, and more on a busy machine: taken for one
	// that goes on, it would lose the next batch, too, and not say why.
	defaultEndTime = 2 * time.Second
)

func (o Options) withDefaults() Options {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&o.StartTimeout, defaultStartTimeout)
	orElse(&o.RunTimeout, defaultRunTimeout)
	orElse(&o.StopTimeout, defaultStopTimeout)
	orElse(&o.endTime, defaultEndTime)
	return o
}

// instance is a model that one command serves, and the next one when that ends.
type instance struct {
	options   *Options
	model     executors.Model
	signature pipelines.Signature

	life    context.Context
	stop    context.CancelFunc
	keeping sync.WaitGroup

	mu      sync.Mutex
	server  *server       // nil while there is none
	last    error         // why there is none
	changed chan struct{} // closed, and replaced, when these change
}

// put replaces the server.
func (in *instance) put(s *server, why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.server, in.last = s, why
	close(in.changed)
	in.changed = make(chan struct{})
}

func (in *instance) look() (*server, <-chan struct{}, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.server, in.changed, in.last
}

// steady is how long a command must have run for its end not to count as
// another failure in a row.
const steady = time.Minute

// keep starts the command again whenever it has ended, until Close.
func (in *instance) keep() {
	failures := 0
	for {
		s, _, _ := in.look()
		if s != nil {
			began := time.Now()
			select {
			case <-in.life.Done():
				s.close()
				in.put(nil, errClosed)
				return
			case <-s.exited:
			}
			if time.Since(began) > steady {
				failures = 0
			}
			in.put(nil, s.gone())
			s.close()
		}
		failures++
		if osutil.SleepTimer(in.life, in.options.Retry.After(failures)) != nil {
			in.put(nil, errClosed)
			return
		}
		next, err := start(in.life, in.options, in.model)
		in.put(next, err)
	}
}

var errClosed = errors.New("it has been closed")

// Signature is what the first command said.
func (in *instance) Signature() pipelines.Signature { return in.signature }

// Memory is 0: the protocol does not tell.
func (in *instance) Memory() int64 { return 0 }

// Close ends the command and waits for its end.
func (in *instance) Close() error {
	in.stop()
	in.keeping.Wait()
	return nil
}

// Run computes a batch in the command. While one is being started it waits,
// within ctx and the time that a batch may take.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	s, err := in.ready(ctx)
	if err != nil {
		return nil, err
	}
	answers, err := s.model.Run(ctx, items)
	if err != nil && ctx.Err() != nil {
		s.kill() // it may hang, and would not hear that it is to end
		code := wire.CodeUnavailable
		if errors.Is(ctx.Err(), context.Canceled) {
			code = wire.CodeCanceled
		}
		return nil, wire.Errorf(code, in.model.Module.Name, "%s was killed because its caller stopped waiting: %v", s.command, context.Cause(ctx))
	}
	if err != nil && errors.Is(err, wire.ErrUnavailable) && s.ends() {
		return nil, wire.Errorf(wire.CodeUnavailable, in.model.Module.Name, "%v", s.gone())
	}
	return answers, err
}

func (in *instance) ready(ctx context.Context) (*server, error) {
	limited, cancel := context.WithTimeout(ctx, in.options.RunTimeout)
	defer cancel()
	for {
		s, changed, why := in.look()
		switch {
		case s != nil && s.alive():
			return s, nil
		case errors.Is(why, errClosed):
			return nil, wire.Errorf(wire.CodeUnavailable, in.model.Module.Name, "the command %v", why)
		}
		select {
		case <-changed:
		case <-in.life.Done():
			return nil, wire.Errorf(wire.CodeUnavailable, in.model.Module.Name, "the command has been closed")
		case <-limited.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, wire.Errorf(wire.CodeCanceled, in.model.Module.Name, "the caller stopped waiting")
			}
			return nil, wire.Errorf(wire.CodeUnavailable, in.model.Module.Name, "it is being started again after: %v", why)
		}
	}
}
