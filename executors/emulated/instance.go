package emulated

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

type instance struct {
	engine    *engine
	model     executors.Model
	signature pipelines.Signature
	durations []time.Duration // by number of requests
	memory    int64
	outputs   *outputs
	batches   int         // of this instance
	broken    atomic.Bool // by a fault or by Close
}

// Signature is described at the package.
func (i *instance) Signature() pipelines.Signature { return i.signature }

// Memory is what the profile says.
func (i *instance) Memory() int64 { return i.memory }

// Close makes further batches fail with code "unavailable".
func (i *instance) Close() error {
	i.broken.Store(true)
	return nil
}

// Run sleeps for the duration of the batch. When ctx ends first, the batch
// fails with code "canceled".
func (i *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := i.fault(len(items)); err != nil {
		return nil, err
	}
	if d := i.jitter(i.durations[len(items)]); d > 0 {
		if err := i.engine.options.Sleep(ctx, d); err != nil {
			return nil, wire.Errorf(wire.CodeCanceled, i.model.Module.Name, "stopped within a batch of %d: %v", len(items), err)
		}
	}
	return i.outputs.batch(items), nil
}

func (i *instance) fault(n int) error {
	if i.broken.Load() {
		return wire.Errorf(wire.CodeUnavailable, i.model.Module.Name, "the emulated engine has stopped")
	}
	if n < 1 || n >= len(i.durations) {
		return wire.Errorf(wire.CodeInvalid, i.model.Module.Name, "a batch of %d requests, but 1 to %d were loaded", n, len(i.durations)-1)
	}
	i.batches++
	if i.engine.options.Fault == nil {
		return nil
	}
	fault := i.engine.options.Fault(i.model, i.engine.batches.Add(1))
	if fault == nil {
		return nil
	}
	if fault.Code == wire.CodeUnavailable {
		i.broken.Store(true)
	}
	return fault
}

// jitter spreads durations evenly: multiples of the golden ratio, taken modulo
// one, fill the interval without a random source.
func (i *instance) jitter(d time.Duration) time.Duration {
	if i.engine.options.Noise == 0 || d == 0 {
		return d
	}
	const golden = 0.6180339887498949
	u := golden * float64(i.batches)
	u -= float64(int64(u))
	return time.Duration(float64(d) * (1 + i.engine.options.Noise*(2*u-1)))
}
