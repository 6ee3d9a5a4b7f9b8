package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/harpagon/harpagon/wire"
)

// Transport carries requests to a gateway. Dial makes one over HTTP; a gateway
// in the same process is one itself; package sdktest has a fake.
type Transport = wire.Backend

// Client sends requests to pipelines. It is safe for concurrent use.
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

// WithOutputs requests these outputs only.
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
	if code := wire.CodeOf(err); code != "" { // a transport of the caller's own, such as sdktest's
		return &wrapped{wire.Errorf(code, "", "%v", err), err}
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

// ItemError is the error of one request of InferBatch. errors.Is and errors.As
// find the *Error within.
type ItemError struct {
	Index int // of the request, from 0
	Err   error
}

// Error names the request, counted from 0.
func (e *ItemError) Error() string { return fmt.Sprintf("request %d: %v", e.Index, e.Err) }

// Unwrap gives the request's own error.
func (e *ItemError) Unwrap() error { return e.Err }

// together is how many requests of one InferBatch are under way at a time.
const together = 256

// InferBatch sends one request for each of the inputs, all at once, and waits for
// all answers: results[i] belongs to inputs[i]. Requests do not depend on each
// other: each has its own deadline, outcome and place in a batch at the gateway,
// and one that fails takes none with it. Options apply to every request.
//
// The error joins one *ItemError for each request that failed, in order, and is
// nil when none did. The result of a request that failed is the zero Result;
// ItemErrors lists which those are. No inputs give no results.
func (c *Client) InferBatch(ctx context.Context, pipeline string, inputs []Inputs, options ...InferOption) ([]Result, error) {
	results := make([]Result, len(inputs))
	errs := make([]error, len(inputs))
	places := make(chan struct{}, together)
	var under sync.WaitGroup
	for i, in := range inputs {
		places <- struct{}{}
		under.Go(func() {
			defer func() { <-places }()
			r, err := c.Infer(ctx, pipeline, in, options...)
			if err != nil {
				errs[i] = &ItemError{Index: i, Err: err}
				return
			}
			results[i] = *r
		})
	}
	under.Wait()
	return results, errors.Join(errs...)
}

// ItemErrors are the errors of single requests in an error of InferBatch, in
// order.
func ItemErrors(err error) []*ItemError {
	switch e := err.(type) {
	case *ItemError:
		return []*ItemError{e}
	case interface{ Unwrap() []error }:
		var all []*ItemError
		for _, one := range e.Unwrap() {
			all = append(all, ItemErrors(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return ItemErrors(e.Unwrap())
	}
	return nil
}

// Error states why a request has no answer: Code, Reason, and where they are
// known the Stage (module) at fault, the Budget and the time Elapsed.
type Error = wire.Error

// What errors.Is finds in an error of this package.
var (
	ErrDeadline    = wire.ErrDeadline    // the deadline cannot be met, or has passed
	ErrOverloaded  = wire.ErrOverloaded  // queues are full; come back later
	ErrInfeasible  = wire.ErrInfeasible  // no plan keeps the objective
	ErrUnavailable = wire.ErrUnavailable // no executor, or no gateway
	ErrInvalid     = wire.ErrInvalid     // the request is wrong; do not repeat it
	ErrNotFound    = wire.ErrNotFound    // no such pipeline
	ErrCanceled    = wire.ErrCanceled    // the caller's context was cancelled
	ErrInternal    = wire.ErrInternal    // an engine or the gateway has failed
)
