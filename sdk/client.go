package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/harpagon/harpagon/wire"
)

// Transport carries requests to a gateway. Dial makes one over HTTP; a gateway
// in the same process is one itself; package sdktest has a fake.
type Transport = wire.Backend

// Client asks pipelines for answers. It may be used from many goroutines at
// once.
type Client struct {
	transport Transport
	close     func() error
}

// NewClient makes a client over a transport.
func NewClient(t Transport) *Client { return &Client{transport: t} }

// Infer sends one request to a pipeline and waits for the answer. The error is
// an *Error.
func (c *Client) Infer(ctx context.Context, pipeline string, inputs Inputs, options ...InferOption) (*Result, error) {
	q := wire.InferRequest{Pipeline: pipeline, Inputs: inputs.list()}
	for _, o := range options {
		o(&q)
	}
	r, err := c.transport.Infer(ctx, &q)
	if err != nil {
		return nil, typed(err)
	}
	return &Result{r}, nil
}

// InferOption changes one request.
type InferOption func(*wire.InferRequest)

// WithID gives the request an ID, which its answer and traces carry.
func WithID(id string) InferOption {
	return func(q *wire.InferRequest) { q.ID = id }
}

// WithOutputs asks for these outputs only.
func WithOutputs(names ...string) InferOption {
	return func(q *wire.InferRequest) { q.Outputs = names }
}

// Pipelines lists what the gateway serves, in order of name.
func (c *Client) Pipelines(ctx context.Context) ([]string, error) {
	names, err := c.transport.Pipelines(ctx)
	return names, typed(err)
}

// Metadata describes a pipeline: its inputs, outputs and SLO, and whether it
// is ready.
func (c *Client) Metadata(ctx context.Context, pipeline string) (*Metadata, error) {
	m, err := c.transport.Metadata(ctx, pipeline)
	return m, typed(err)
}

// Close lets go of connections.
func (c *Client) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// typed makes sure that what comes out is an *Error.
func typed(err error) error {
	var e *wire.Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &wrapped{wire.Errorf(wire.CodeDeadline, "", "the caller's deadline has passed without an answer; give it longer, or see harpagon status for what is slow"), err}
	case errors.Is(err, context.Canceled):
		return &wrapped{wire.Errorf(wire.CodeCanceled, "", "the caller has gone"), err}
	}
	return &wrapped{wire.Errorf(wire.CodeUnavailable, "", "%v", err), err}
}

// wrapped is an *Error with its cause, both found by errors.Is and errors.As.
type wrapped struct {
	typed *wire.Error
	cause error
}

func (w *wrapped) Error() string   { return w.typed.Error() }
func (w *wrapped) Unwrap() []error { return []error{w.typed, w.cause} }

// String names the client's transport.
func (c *Client) String() string {
	if s, ok := c.transport.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", c.transport)
}
