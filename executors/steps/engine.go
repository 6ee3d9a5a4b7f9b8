package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

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

// Function is a processing step that modules may name.
type Function struct {
	// Doc is one line on what it does.
	Doc string
	// Prepare reads the parameters of a module and returns the step to call. A
	// parameter that Prepare does not read is an error of the declaration, and
	// so is whatever Parameters found wrong; Prepare need not check for either.
	Prepare func(p *Parameters) (Step, error)
}

// Step is a function with its parameters.
type Step struct {
	// Signature gives inputs and outputs for one request. A dimension of -1
	// varies; a port without a datatype takes or gives any tensor.
	Signature pipelines.Signature

	// Call computes one request. The inputs agree with the signature and must
	// not be written to; the outputs may share their memory. An error that is no
	// *wire.Error means that the input is at fault (code "invalid").
	//
	// Calls of one Step come one at a time.
	Call func(ctx context.Context, inputs []wire.Tensor) ([]wire.Tensor, error)

	// Sample makes inputs to measure with, one shape per input, where evenly
	// random numbers would not do. May be nil.
	Sample func(shapes [][]int64, rng *rand.Rand) []wire.Tensor
}

// Plain is a Function without parameters.
func Plain(sig pipelines.Signature, call func(ctx context.Context, inputs []wire.Tensor) ([]wire.Tensor, error)) Function {
	return Function{Prepare: func(*Parameters) (Step, error) {
		return Step{Signature: sig, Call: call}, nil
	}}
}

// Registry holds functions by name. Its zero value is empty; it may be used from several
// goroutines.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Function
}

// Builtin returns a new registry with the built-in functions.
func Builtin() *Registry {
	return &Registry{byName: map[string]Function{
		"threshold_boxes": ThresholdBoxes(),
		"crop":            Crop(),
		"resize":          Resize(),
		"argmax_label":    ArgmaxLabel(),
		"identity":        Identity(),
		"letterbox":       Letterbox(),
		"text_boxes":      TextBoxes(),
		"text_lines":      TextLines(),
		"turn_quads":      TurnQuads(),
		"ctc_text":        CTCText(),
		"decode_image":    DecodeImage(),
		"normalize":       Normalize(),
		"softmax":         Softmax(),
		"top_k":           TopK(),
		"concat":          Concat(),
	}}
}

// Register adds a function. It fails when the name is empty or taken, or when
// there is nothing to prepare.
func (r *Registry) Register(name string, f Function) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return fmt.Errorf("executors/steps: a function needs a name")
	case f.Prepare == nil:
		return fmt.Errorf("executors/steps: function %q has no Prepare", name)
	}
	if _, taken := r.byName[name]; taken {
		return fmt.Errorf("executors/steps: function %q is registered already; choose another name", name)
	}
	if r.byName == nil {
		r.byName = make(map[string]Function)
	}
	r.byName[name] = f
	return nil
}

// Names lists the functions in alphabetical order.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byName))
}

// Lookup finds a function by its name.
func (r *Registry) Lookup(name string) (Function, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f, ok := r.byName[name]
	return f, ok
}

// Signature is what a module with a function consumes and produces. The error
// names an unknown function or parameter, with a suggestion where there is one.
func (r *Registry) Signature(m pipelines.Module) (pipelines.Signature, error) {
	step, err := r.prepare(m)
	return step.Signature, err
}

func (r *Registry) prepare(m pipelines.Module) (Step, error) {
	f, ok := r.Lookup(m.Function)
	if !ok {
		return Step{}, fmt.Errorf("executors/steps: module %q: there is no function %q%s", m.Name, m.Function, hint(m.Function, r.Names()))
	}
	p := NewParameters(m.Parameters)
	step, err := f.Prepare(p)
	if wrong := p.Err(); wrong != nil {
		err = wrong
	}
	if err == nil && step.Call == nil {
		err = fmt.Errorf("it has nothing to call")
	}
	if err != nil {
		return Step{}, fmt.Errorf("executors/steps: module %q: function %q: %w", m.Name, m.Function, err)
	}
	return step, nil
}
