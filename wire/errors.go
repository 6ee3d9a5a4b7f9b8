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

// Code classifies why a request has no answer. It is part of the protocol.
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

var sentinels = []struct {
	code Code
	err  error
}{
	{CodeDeadline, ErrDeadline},
	{CodeOverloaded, ErrOverloaded},
	{CodeInfeasible, ErrInfeasible},
	{CodeUnavailable, ErrUnavailable},
	{CodeInvalid, ErrInvalid},
	{CodeCanceled, ErrCanceled},
	{CodeNotFound, ErrNotFound},
	{CodeInternal, ErrInternal},
}

// Error is the one typed error of the request path. It survives the protocol:
// what the gateway returns is what errors.As finds at the client.
type Error struct {
	Code    Code          `json:"code"`
	Reason  string        `json:"reason"`
	Stage   string        `json:"stage,omitempty"` // module at fault; empty before any
	Budget  time.Duration `json:"budget_ns,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`

	// Starting means that the gateway is not ready: it has not received all services yet, so that
	// another may answer now and this one soon.
	Starting bool `json:"starting,omitempty"`

	// Cause is the rule of its stream by which a frame was refused; empty for all other errors.
	Cause Cause `json:"cause,omitempty"`
}

// Cause is why a frame was refused. It is part of the protocol.
type Cause string

// The causes, both of CodeOverloaded.
const (
	CauseTooFast Cause = "too_fast" // it came sooner after others of its stream than rate and jitter allow
	CauseNoPlace Cause = "no_place" // its stream has no place
	CauseNoState Cause = "no_state" // its gateway has nothing that modules have kept of its stream: the caller brings it, or begins
)

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
	for _, s := range sentinels {
		if s.code == e.Code {
			return s.err
		}
	}
	return ErrInternal
}

// CodeOf returns the code whose sentinel is in err, and "" where none is.
func CodeOf(err error) Code {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return ""
}

// Errorf builds an Error with a formatted reason.
func Errorf(code Code, stage, format string, args ...any) *Error {
	return &Error{Code: code, Stage: stage, Reason: fmt.Sprintf(format, args...)}
}
