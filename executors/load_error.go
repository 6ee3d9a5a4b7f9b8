package executors

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// LoadError says that an executor, or a measurement, could not have its module's
// engine ready: the engine is missing, or cannot load the module.
type LoadError struct {
	Module string
	Took   time.Duration // until it was known
	Err    error
}

// Error is that of the engine, which names the module.
func (e *LoadError) Error() string { return e.Err.Error() }

// Unwrap gives the engine's error.
func (e *LoadError) Unwrap() error { return e.Err }

// quickly is how soon a load must have failed for another attempt to be worth
// while.
const quickly = 10 * time.Second

// Again says whether to try once more may help: what was unavailable, such as a
// server or a process that ended, may be there the next time. What an engine
// refuses it will refuse again.
func (e *LoadError) Again(attempt int) bool {
	return errors.Is(e.Err, wire.ErrUnavailable) && attempt < 2 && e.Took < quickly
}

func loadError(module string, begin time.Time, format string, args ...any) error {
	return &LoadError{Module: module, Took: time.Since(begin), Err: fmt.Errorf(format, args...)}
}
