package onnxruntime

import (
	"context"
	"sync"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// InChild completes an engine that runs New(o) in child processes with what
// can be told without one: whether it can run here, and signatures. Both look
// for the library once.
func InChild(inner executors.Engine, o Options) executors.Engine {
	return &remote{Engine: inner, available: sync.OnceValue(engine{options: o}.Available)}
}

type remote struct {
	executors.Engine
	available func() error
}

// LoadTogether loads the models in one child.
func (r *remote) LoadTogether(ctx context.Context, all []executors.Model) ([]executors.Instance, error) {
	return executors.LoadTogether(ctx, r.Engine, all)
}

// Available says why the engine cannot run here; nil when it can.
func (r *remote) Available() error { return r.available() }

// Limit is the largest batch that the model takes; 0 where it is open.
func (r *remote) Limit(m pipelines.Module) int { return limit(m) }

// Signature reads the model's declaration.
func (r *remote) Signature(m pipelines.Module) (pipelines.Signature, error) { return Signature(m) }
