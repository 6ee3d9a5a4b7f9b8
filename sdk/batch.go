package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

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
