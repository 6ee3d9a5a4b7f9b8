package serverless

import (
	"context"
	"slices"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

// Front answers for the pipelines of a gateway and for functions: what clients
// see. A function goes before a pipeline of the same name; declarations do not
// allow both.
type Front struct {
	Gateway   *gateway.Gateway
	Functions *Server
}

// Infer asks a pipeline, or an application of a function.
func (f Front) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if f.Functions.Serves(q.Pipeline) {
		return f.Functions.Infer(ctx, q)
	}
	return f.Gateway.Infer(ctx, q)
}

// Metadata describes a pipeline, a function or an application.
func (f Front) Metadata(ctx context.Context, name string) (*wire.Metadata, error) {
	if f.Functions.Serves(name) {
		return f.Functions.Metadata(ctx, name)
	}
	return f.Gateway.Metadata(ctx, name)
}

// Pipelines lists everything that can be asked, in order of name.
func (f Front) Pipelines(ctx context.Context) ([]string, error) {
	all, err := f.Gateway.Pipelines(ctx)
	if err != nil {
		return nil, err
	}
	more, err := f.Functions.Pipelines(ctx)
	return slices.Sorted(slices.Values(append(all, more...))), err
}
