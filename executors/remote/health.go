package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
)

// How long one question about health may take, and how many fail in a row
// before batches do.
const (
	healthTime = 2 * time.Second
	patience   = 2
)

// errNotReady means that the server is alive but the model not ready.
var errNotReady = errors.New("the server reports that the model is not ready")

// Ready checks once.
func (in *Instance) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	ok, err := in.target.Server.Ready(ctx, in.target.Model, in.target.Version)
	if err == nil && !ok {
		return errNotReady
	}
	return err
}

// wait until the model is ready. An unknown model is an error at once, also on servers that
// cannot report readiness.
func (in *Instance) wait(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, in.options.LoadTimeout)
	defer cancel()
	var why error // the last answer
	for began := time.Now(); ; {
		err := in.Ready(limited)
		if err == nil {
			return nil
		}
		if why == nil || limited.Err() == nil {
			why = err
		}
		if errors.Is(err, wire.ErrNotFound) {
			_, err = in.target.Server.Metadata(limited, in.target.Model, in.target.Version)
			return err
		}
		if refused(err) {
			return err
		}
		if osutil.SleepAgain(limited, began, again, time.Second) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return wire.Errorf(wire.CodeUnavailable, in.module, "not ready within %v: %v", in.options.LoadTimeout, why)
		}
	}
}

// refused is true for an error that waiting does not resolve, such as a missing token.
func refused(err error) bool { return errors.Is(err, wire.ErrInvalid) }

// watchHealth checks readiness until ctx ends.
func (in *Instance) watchHealth(ctx context.Context) {
	failures := 0
	for osutil.SleepTimer(ctx, in.options.HealthPeriod) == nil {
		err := in.Ready(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			in.setDown(nil)
		case errors.Is(err, wire.ErrNotFound):
			// The server has no readiness to report.
		default:
			if failures++; failures >= patience {
				in.setDown(err)
			}
		}
	}
}

func (in *Instance) setDown(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.down = err
}

func (in *Instance) isDown() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.down
}

// warmUp runs every batch size on zeros; a model whose sizes are unknown is not warmed up.
func (in *Instance) warmUp(ctx context.Context, m executors.Model) error {
	item, ok := executors.WarmItem(in.signature.Inputs, m.Feeds)
	if !ok {
		return nil
	}
	sizes := m.Batches
	if len(sizes) == 0 {
		sizes = []int{in.largest}
	}
	run := func(ctx context.Context, n int) error {
		_, err := in.Run(ctx, slices.Repeat([][]wire.Tensor{item}, n))
		switch {
		case errors.Is(err, wire.ErrInvalid):
			return fmt.Errorf("it refuses a batch of %d: %w; set batches to what it takes", n, err)
		case err != nil:
			return fmt.Errorf("warming up a batch of %d: %w", n, err)
		}
		return nil
	}
	if err := in.grade(ctx, sizes, run); err != nil {
		return err
	}
	executors.WarmBetween(ctx, sizes, run)
	return ctx.Err()
}
