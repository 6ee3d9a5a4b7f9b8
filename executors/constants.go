package executors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Constants fill the inputs of a module that its declaration fixes, so that they are not sent.
// A nil *Constants fills nothing.
type Constants struct {
	fed   pipelines.Signature // what is left to send
	fixed []*wire.Tensor      // by input of the model; nil where it is sent
}

// NewConstants takes them out of a module's bindings. sig is the model's whole
// signature for one request. The result is nil where none of its inputs is
// constant.
func NewConstants(m pipelines.Module, sig pipelines.Signature) (*Constants, error) {
	c := &Constants{fed: pipelines.Signature{Outputs: sig.Outputs}, fixed: make([]*wire.Tensor, len(sig.Inputs))}
	for j, p := range sig.Inputs {
		at := slices.IndexFunc(m.Inputs, func(b pipelines.Binding) bool { return b.Name == p.Name && b.IsConstant() })
		if at < 0 {
			c.fed.Inputs = append(c.fed.Inputs, p)
			continue
		}
		constant, err := pipelines.ConstantAt(m.Inputs[at].Value, p)
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, m.Name, "input %q, which is %s %v: %v; correct it in the declaration", p.Name, p.Datatype, p.Shape, err)
		}
		t := wire.FromConstant(constant)
		c.fixed[j] = &t
	}
	if len(c.fed.Inputs) == len(sig.Inputs) {
		return nil, nil
	}
	return c, nil
}

// Signature is the whole one without the inputs that are fixed.
func (c *Constants) Signature(whole pipelines.Signature) pipelines.Signature {
	if c == nil {
		return whole
	}
	return c.fed
}

// Fill puts the constants among what was sent. The items given stay as they are.
func (c *Constants) Fill(items [][]wire.Tensor) [][]wire.Tensor {
	if c == nil {
		return items
	}
	all := make([]wire.Tensor, len(items)*len(c.fixed))
	filled := make([][]wire.Tensor, len(items))
	for i, item := range items {
		filled[i], all = all[:len(c.fixed):len(c.fixed)], all[len(c.fixed):]
		k := 0
		for j, fixed := range c.fixed {
			if fixed != nil {
				filled[i][j] = *fixed
			} else if k < len(item) {
				filled[i][j] = item[k]
				k++
			}
		}
	}
	return filled
}

// withConstants is an engine whose instances do not handle constants.
type withConstants struct{ Engine }

// fixing wraps the engine where the module has constants.
func fixing(e Engine, err error, m pipelines.Module) (Engine, error) {
	if err != nil || !slices.ContainsFunc(m.Inputs, pipelines.Binding.IsConstant) {
		return e, err
	}
	return withConstants{e}, nil
}

// Load fills the inputs that are left to send though they are constant.
func (e withConstants) Load(ctx context.Context, m Model) (Instance, error) {
	in, err := e.Engine.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	return fixed(in, m)
}

// fixed gives the instance of a module its constants.
func fixed(in Instance, m Model) (Instance, error) {
	c, err := NewConstants(m.Module, in.Signature())
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	if c == nil {
		return in, nil
	}
	f := &filled{Instance: in, constants: c}
	if s, ok := in.(Sampler); ok {
		return &filledSampler{filled: f, sampler: s}, nil
	}
	return f, nil
}

// filled is an instance that is sent all inputs but the constant ones.
type filled struct {
	Instance
	constants *Constants
}

func (f *filled) Signature() pipelines.Signature { return f.constants.fed }

func (f *filled) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	for i, item := range items {
		if len(item) != len(f.constants.fed.Inputs) {
			return nil, fmt.Errorf("executors: request %d has %d tensors where %d are expected", i+1, len(item), len(f.constants.fed.Inputs))
		}
	}
	return f.Instance.Run(ctx, f.constants.Fill(items))
}

// AwaitEnd is that of the instance.
func (f *filled) AwaitEnd(ctx context.Context) error {
	if one, ok := f.Instance.(mortal); ok {
		return one.AwaitEnd(ctx)
	}
	<-ctx.Done()
	return nil
}

// filledSampler forwards an instance's own inputs for measuring.
type filledSampler struct {
	*filled
	sampler Sampler
}

func (f *filledSampler) Sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	c := f.constants
	all := make([][]int64, len(c.fixed))
	k := 0
	for j, fixed := range c.fixed {
		if fixed != nil {
			all[j] = fixed.Shape
		} else {
			all[j] = shapes[k]
			k++
		}
	}
	var sent []wire.Tensor
	for j, t := range f.sampler.Sample(all, rng) {
		if c.fixed[j] == nil {
			sent = append(sent, t)
		}
	}
	return sent
}
