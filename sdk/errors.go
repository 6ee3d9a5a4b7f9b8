package sdk

import "github.com/harpagon/harpagon/wire"

// Error says why a request has no answer: Code, Reason, and where they are
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
