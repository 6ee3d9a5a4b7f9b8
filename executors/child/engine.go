package child

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// New returns an engine that runs the engine called inner in child processes, one
// for each instance or for those that are loaded together (executors.Together). It
// has the inner engine's name.
func New(inner string, o Options) executors.Engine {
	return &engine{inner: inner, options: o.withDefaults()}
}

type engine struct {
	inner   string
	options Options

	mu      sync.Mutex
	version string // once known
}

// Name is the inner engine's.
func (e *engine) Name() string { return e.inner }

// Version is the inner engine's with a mark that it runs in a child, which
// takes its own time. It is read from a child, once; "unknown" means that none starts.
func (e *engine) Version() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == "" && e.options.Version != "" {
		e.version = mark(e.options.Version)
	}
	if e.version != "" {
		return e.version
	}
	p, err := start(context.Background(), e.inner, "", "", &e.options)
	if err != nil {
		return "unknown"
	}
	defer p.close()
	version, ok := p.version(e.inner)
	if !ok {
		return "unknown"
	}
	e.version = mark(version)
	return e.version
}

func mark(version string) string { return version + " (child 2)" }

// Load starts a child and loads the model there. ctx bounds the loading only;
// the child lives until Close or its own end.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	all, err := e.LoadTogether(ctx, []executors.Model{m})
	if err != nil {
		return nil, err.(*executors.TogetherError).Err
	}
	return all[0], nil
}

// LoadTogether starts one child for all the models and loads them there, one after
// the other.
func (e *engine) LoadTogether(ctx context.Context, all []executors.Model) ([]executors.Instance, error) {
	label := all[0].Module.Name // for people who read what the child prints
	if more := len(all) - 1; more > 0 {
		label += fmt.Sprintf(" and %d more", more)
	}
	p, err := start(ctx, e.inner, label, all[0].Device, &e.options)
	if err != nil {
		return nil, &executors.TogetherError{Err: err}
	}
	p.open.Store(int32(len(all)))
	instances := make([]executors.Instance, len(all))
	for i := range all {
		if err := p.load(ctx, &all[i]); err != nil {
			p.close()
			return nil, &executors.TogetherError{At: i, Err: err}
		}
		instances[i] = &instance{process: p, at: i, module: all[i].Module.Name}
	}
	return instances, nil
}

// Options configure how children are started. The zero value is ready to use.
type Options struct {
	Command []string // program and arguments; empty: this program without arguments

	// Env is added to this process's environment. GOMAXPROCS=1 comes before it:
	// a device of hardware "cpu" is one core.
	Env []string

	// Output gets what children print, line by line, each with a prefix that
	// names engine and module; nil means os.Stderr. Children of one engine may
	// write at once, so it must be safe for concurrent use, as a file is.
	Output io.Writer

	StartTimeout time.Duration // until a child sends hello; 0 means 20 s
	LoadTimeout  time.Duration // of loading and warming up; 0 means 5 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	CloseTimeout time.Duration // until a child that is to end is killed; 0 means 2 s

	MaxMessage int    // bytes of one batch or result; 0 means 256 MiB
	Version    string // of the inner engine; empty: read from a child, once
}

// The defaults of Options.
const (
	defaultStartTimeout = 20 * time.Second
	defaultLoadTimeout  = 5 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultCloseTimeout = 2 * time.Second
	defaultMaxMessage   = 256 << 20
	largestMaxMessage   = 1<<31 - 1
)

func (o Options) withDefaults() Options {
	o.StartTimeout = orElse(o.StartTimeout, defaultStartTimeout)
	o.LoadTimeout = orElse(o.LoadTimeout, defaultLoadTimeout)
	o.RunTimeout = orElse(o.RunTimeout, defaultRunTimeout)
	o.CloseTimeout = orElse(o.CloseTimeout, defaultCloseTimeout)
	o.MaxMessage = min(orElse(o.MaxMessage, defaultMaxMessage), largestMaxMessage)
	return o
}

func orElse[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// hello is a child's first word.
type hello struct {
	Protocol int
	Engines  []engineInfo
}

type engineInfo struct{ Name, Version string }

// orders of a child.
type orders struct{ MaxMessage int }

type loadRequest struct {
	Engine string
	Model  executors.Model
}

type loadReply struct {
	Signature pipelines.Signature
	Memory    int64
}
