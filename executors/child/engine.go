package child

import (
	"context"
	"sync"

	"github.com/harpagon/harpagon/executors"
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
// takes its own time. It asks a child, once; "unknown" says that none starts.
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
// the child lives until Close.
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
	h := &models{engine: e.inner, options: &e.options, all: all, open: len(all)}
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	instances := make([]executors.Instance, len(all))
	for i := range all {
		instances[i] = &instance{models: h, at: i, module: all[i].Module.Name}
	}
	return instances, nil
}
