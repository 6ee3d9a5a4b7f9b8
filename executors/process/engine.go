package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// New returns the engine "process".
func New(o Options) executors.Engine { return &engine{options: o.withDefaults()} }

type engine struct {
	options Options
	kept    kept
}

// Name is "process".
func (e *engine) Name() string { return pipelines.EngineProcess }

// Version changes with how commands are started and called.
func (e *engine) Version() string { return "2" }

// LoadsOnce reports that all batch sizes are measured on one instance.
func (e *engine) LoadsOnce() {}

// Load starts the command and waits until it serves. ctx bounds the loading
// only; the command lives until Close or its own end.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if len(m.Module.Command) == 0 {
		return nil, fmt.Errorf("module %q has no command to start; set command = [\"PROGRAM\", ...]", m.Module.Name)
	}
	in := e.kept.take(ctx, &m)
	if in == nil {
		s, err := start(ctx, &e.options, m)
		if err != nil && ctx.Err() == nil && e.kept.free(m.Device) { // there may be room now
			s, err = start(ctx, &e.options, m)
		}
		if err != nil {
			return nil, err
		}
		in = &instance{server: s, module: m.Module.Name, loaded: m, kept: &e.kept}
	}
	if in.server.model.Ahead() {
		return &aheadInstance{in}, nil
	}
	return in, nil
}

// Options configure how commands are started. The zero value is ready to use.
type Options struct {
	// Supervisor starts a program whose main calls subprocess.Supervise first; empty: this program.
	Supervisor []string

	Env []string // beside this process's and what every command receives

	// Output gets what commands print, line by line, each with a prefix that
	// names the module; nil means os.Stderr. Several commands may write at once.
	Output io.Writer

	StartTimeout time.Duration // until the model is ready; 0 means 2 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	StopTimeout  time.Duration // between SIGTERM and SIGKILL; 0 means 5 s
	HealthPeriod time.Duration // see remote.Options
	MaxAnswer    int           // see remote.Options

	unshared bool // tensors travel; for tests

	endTime time.Duration // for a command to end that has failed a batch; 0 means 2 s
}

// The defaults of Options.
const (
	defaultStartTimeout = 2 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultStopTimeout  = 5 * time.Second

	// One that ends takes a few milliseconds, and more on a busy machine: taken for one that goes
	// on, it would lose the next batch, too, without a reason.
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

// instance is a model that a command serves.
type instance struct {
	server *server
	module string
	loaded executors.Model
	kept   *kept
}

// Signature is what the command reported.
func (in *instance) Signature() pipelines.Signature { return in.server.model.Signature() }

// Memory is what the command reported; 0 where it does not.
func (in *instance) Memory() int64 { return in.server.model.Memory() }

// MemoryFor is that of one for batches of up to a size.
func (in *instance) MemoryFor(size int) int64 { return in.server.model.MemoryFor(size) }

// Close ends the command and waits for its end.
func (in *instance) Close() error {
	in.server.close()
	return nil
}

// Keep is Close of an instance that the next load of the same model on its device reuses.
func (in *instance) Keep() { in.kept.keep(in) }

// AwaitEnd returns when the command has ended by itself.
func (in *instance) AwaitEnd(ctx context.Context) error {
	select {
	case <-in.server.Ended():
		return in.gone()
	case <-ctx.Done():
		return nil
	}
}

// gone reports how the command ended.
func (in *instance) gone() error {
	return wire.Errorf(wire.CodeUnavailable, in.module, "%v", in.server.gone())
}

// Run computes a batch in the command.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	s := in.server
	if !s.Alive() {
		return nil, in.gone()
	}
	answers, err := s.model.Run(ctx, items)
	if err != nil && ctx.Err() != nil {
		// It may hang, and would ignore a request to end.
		s.Kill(fmt.Errorf("it was killed because its caller stopped waiting: %w", context.Cause(ctx)))
		<-s.Ended()
		code := wire.CodeUnavailable
		if errors.Is(context.Cause(ctx), context.Canceled) {
			code = wire.CodeCanceled
		}
		return nil, wire.Errorf(code, in.module, "%v", s.gone())
	}
	if err != nil && errors.Is(err, wire.ErrUnavailable) && s.EndsWithin(s.options.endTime) {
		return nil, in.gone()
	}
	return answers, err
}

// aheadInstance is of a command that keeps a batch until it is done with the one before.
type aheadInstance struct{ *instance }

// Stage sends a batch while one is computed: it has reached the command by the time that its turn
// comes.
func (in *aheadInstance) Stage(items [][]wire.Tensor) (func(context.Context) ([][]wire.Tensor, error), error) {
	if !in.server.Alive() {
		return nil, in.gone()
	}
	life, cancel := context.WithCancelCause(context.Background())
	var answers [][]wire.Tensor
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answers, err = in.Run(life, items)
	}()
	return func(ctx context.Context) ([][]wire.Tensor, error) {
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		<-ended
		return answers, err
	}, nil
}
