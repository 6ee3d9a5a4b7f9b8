package steps

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// New returns the engine "function", which runs the functions of a registry in
// this process.
func New(r *Registry) executors.Engine { return engine{registry: r} }

type engine struct{ registry *Registry }

// Name is "function".
func (engine) Name() string { return executors.EngineFunction }

// Version changes when the built-in functions become faster or slower.
func (engine) Version() string { return "1" }

// Signature is the registry's.
func (e engine) Signature(m pipelines.Module) (pipelines.Signature, error) {
	return e.registry.Signature(m)
}

// Load prepares the function. There is nothing to warm up.
func (e engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	step, err := e.registry.prepare(m.Module)
	if err != nil {
		return nil, err
	}
	plain := &instance{module: m.Module.Name, function: m.Module.Function, step: step}
	if step.Sample != nil {
		return sampled{plain}, nil
	}
	return plain, nil
}

type instance struct {
	module, function string
	step             Step
}

func (i *instance) Signature() pipelines.Signature { return i.step.Signature }

// Memory is unknown: a function uses the heap of its process.
func (i *instance) Memory() int64 { return 0 }

func (i *instance) Close() error { return nil }

// Run calls the function for one request after the other.
func (i *instance) Run(ctx context.Context, items [][]wire.Tensor) (_ [][]wire.Tensor, err error) {
	answers := make([][]wire.Tensor, len(items))
	var kept []func()
	defer func() {
		for i := 0; err != nil && i < len(kept); i++ {
			kept[i]()
		}
	}()
	for n, inputs := range items {
		if err := ctx.Err(); err != nil {
			return nil, wire.Errorf(wire.CodeCanceled, i.module, "stopped after %d of %d requests: %v", n, len(items), err)
		}
		outputs, err := i.call(ctx, inputs)
		if err != nil {
			return nil, i.typed(err)
		}
		release, err := executors.ReserveMemory(ctx, wire.DataSize(outputs))
		if err != nil {
			return nil, i.typed(err)
		}
		kept = append(kept, release)
		answers[n] = outputs
	}
	return answers, nil
}

// call turns a panic into an error. Steps keep no state between calls that a
// panic could have left half-done, so the instance stays usable.
func (i *instance) call(ctx context.Context, inputs []wire.Tensor) (outputs []wire.Tensor, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = wire.Errorf(wire.CodeInternal, i.module, "function %q panicked: %v", i.function, p)
		}
	}()
	return i.step.Call(ctx, inputs)
}

func (i *instance) typed(err error) error {
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return known
	}
	return wire.Errorf(wire.CodeInvalid, i.module, "function %q: %v", i.function, err)
}

// sampled is an instance of a function that makes its own inputs.
type sampled struct{ *instance }

// Sample is the step's.
func (s sampled) Sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	return s.step.Sample(shapes, rng)
}
