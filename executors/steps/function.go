package steps

import (
	"context"
	"math/rand/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Function is a processing step that modules may name.
type Function struct {
	// Doc says in one line what it does.
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
