package wire

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels that every *Error unwraps to, by its Code.
var (
	ErrDeadline    = errors.New("harpagon: deadline cannot be met")
	ErrOverloaded  = errors.New("harpagon: overloaded")
	ErrInfeasible  = errors.New("harpagon: infeasible")
	ErrUnavailable = errors.New("harpagon: unavailable")
	ErrInvalid     = errors.New("harpagon: invalid request")
	ErrCanceled    = errors.New("harpagon: canceled by the caller")
	ErrNotFound    = errors.New("harpagon: no such pipeline")
	ErrInternal    = errors.New("harpagon: internal error")
)

// Code says in one word why a request has no answer. It is part of the protocol.
type Code string

// The codes, each with the sentinel of the same name.
const (
	CodeDeadline    Code = "deadline"
	CodeOverloaded  Code = "overloaded"
	CodeInfeasible  Code = "infeasible"
	CodeUnavailable Code = "unavailable"
	CodeInvalid     Code = "invalid"
	CodeCanceled    Code = "canceled"
	CodeNotFound    Code = "not_found"
	CodeInternal    Code = "internal"
)

// Error is the one typed error of the request path. It survives the protocol:
// what the gateway returns is what errors.As finds at the client.
type Error struct {
	Code    Code          `json:"code"`
	Reason  string        `json:"reason"`
	Stage   string        `json:"stage,omitempty"` // module at fault; empty before any
	Budget  time.Duration `json:"budget_ns,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`

	// Starting reports that the gateway is not ready: it has not been told of all services
	// yet, so that another may answer now and this one soon.
	Starting bool `json:"starting,omitempty"`
}

// Error states code, stage, reason and, where they are known, the times.
func (e *Error) Error() string {
	s := "harpagon: " + string(e.Code)
	if e.Stage != "" {
		s += " at " + e.Stage
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Budget > 0 {
		s += fmt.Sprintf(" (budget %v, elapsed %v)", e.Budget, e.Elapsed)
	}
	return s
}

// Unwrap returns the sentinel of the code, so that errors.Is works.
func (e *Error) Unwrap() error {
	switch e.Code {
	case CodeDeadline:
		return ErrDeadline
	case CodeOverloaded:
		return ErrOverloaded
	case CodeInfeasible:
		return ErrInfeasible
	case CodeUnavailable:
		return ErrUnavailable
	case CodeInvalid:
		return ErrInvalid
	case CodeCanceled:
		return ErrCanceled
	case CodeNotFound:
		return ErrNotFound
	}
	return ErrInternal
}

// Errorf builds an Error with a formatted reason.
func Errorf(code Code, stage, format string, args ...any) *Error {
	return &Error{Code: code, Stage: stage, Reason: fmt.Sprintf(format, args...)}
}
