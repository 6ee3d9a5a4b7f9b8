package process

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
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
