package wire

import (
	"context"
	"time"
)

// Backend answers requests: a gateway, or a client of one. Every error of Infer is,
// or wraps, an *Error.
type Backend interface {
	Infer(context.Context, *InferRequest) (*InferResponse, error)
	Metadata(ctx context.Context, name string) (*Metadata, error)
	Pipelines(context.Context) ([]string, error) // what requests can name
}

// InferRequest asks a pipeline for one answer.
type InferRequest struct {
	ID       string // chosen by the caller, returned unchanged; may be empty
	Pipeline string
	Inputs   []NamedTensor
	Outputs  []string // names wanted; empty means all

	// Textual says which outputs are to go as JSON, which has no numbers that are not finite;
	// nil means none. It does not travel.
	Textual func(output string) bool

	// Arrived is when it came, as far as a server knows that; zero means now. It
	// does not travel.
	Arrived time.Time
}

// InferResponse is the answer to one request.
type InferResponse struct {
	ID         string
	Pipeline   string
	Generation int // of the plan that served the request
	Outputs    []NamedTensor
	Stages     []Stage
	Elapsed    time.Duration // from arrival at the gateway to the answer
}

// Stage is where the time of a request went in one module. Over the stages on
// the request's critical path (Critical true) the four parts add up to Elapsed.
type Stage struct {
	Module   string
	Items    int // requests that the module saw for this one
	Batch    int // size of the batch that finished last
	Critical bool
	Queue    time.Duration // ready, no device free
	Wait     time.Duration // for the batch to fill
	Compute  time.Duration // in the engine
	Transfer time.Duration // to and from the executor, gather and scatter
}
