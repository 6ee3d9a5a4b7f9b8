// Package sdktest fakes a gateway for tests of programs that use package sdk.
//
//	client := sdk.NewClient(sdktest.Fake{
//		"traffic": func(ctx context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
//			return sdktest.Outputs{"vehicles": sdk.Strings([]string{"car"})}, nil
//		},
//	})
//
// Errors that a Pipeline returns reach the program as they would from a
// gateway; return the *sdk.Error that the case is about.
package sdktest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
)

// Pipeline answers requests in place of networks. It may be called from many
// goroutines at once.
type Pipeline func(ctx context.Context, in sdk.Inputs) (Outputs, error)

// Outputs are an answer's tensors by name.
type Outputs map[string]sdk.Tensor

// Fake is a gateway that serves functions, by the name of the pipeline. It is
// an sdk.Transport.
type Fake map[string]Pipeline

var _ sdk.Transport = Fake{}

// Infer calls the pipeline's function.
func (f Fake) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	p := f[q.Pipeline]
	if p == nil {
		return nil, f.missing(q.Pipeline)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in := make(sdk.Inputs, len(q.Inputs))
	for _, t := range q.Inputs {
		if err := t.Validate(); err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, "", "input %q: %v", t.Name, err)
		}
		in[t.Name] = t.Tensor
	}
	begin := time.Now()
	out, err := p(ctx, in)
	if err != nil {
		return nil, err
	}
	r := &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: 1, Elapsed: time.Since(begin)}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if len(q.Outputs) == 0 || slices.Contains(q.Outputs, name) {
			r.Outputs = append(r.Outputs, wire.NamedTensor{Name: name, Tensor: out[name]})
		}
	}
	return r, nil
}

// Metadata returns names only.
func (f Fake) Metadata(_ context.Context, pipeline string) (*wire.Metadata, error) {
	if f[pipeline] == nil {
		return nil, f.missing(pipeline)
	}
	return &wire.Metadata{Pipeline: pipeline, Generation: 1, Ready: true}, nil
}

// Pipelines lists the names.
func (f Fake) Pipelines(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(f)), nil
}

func (f Fake) missing(pipeline string) *wire.Error {
	return wire.Errorf(wire.CodeNotFound, "", "the fake has no pipeline %q; it has: %s", pipeline, strings.Join(slices.Sorted(maps.Keys(f)), ", "))
}
