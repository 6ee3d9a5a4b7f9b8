package emulated

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Options of the engine; the zero value is what serving uses.
type Options struct {
	// Signatures knows the modules that are real networks or functions, so that
	// their stand-ins answer with tensors of the real shapes. When nil or
	// failing, the outputs are small FP32 tensors.
	Signatures pipelines.SignatureFunc

	// Duration overrides the profile. The zero duration returns at once.
	Duration func(m executors.Model, batch int) time.Duration

	// Noise makes durations vary evenly within ±Noise of the profiled one (0.1
	// is ten per cent) by a fixed sequence.
	Noise float64

	// Echo puts a checksum of a request's inputs into the first element of its
	// FP32 outputs, so that a test can tell whose answer it got.
	Echo bool

	// Fault is asked before the n-th batch (from 1, over all instances of the
	// engine) runs; the batch fails with what it returns. Code "unavailable"
	// breaks the instance, as a crash would. See failOn and CrashOn.
	Fault func(m executors.Model, n int64) *wire.Error

	// Sleep replaces the clock in tests. It returns early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// New returns the engine "emulated".
func New(o Options) executors.Engine {
	if o.Sleep == nil {
		o.Sleep = osutil.Sleep
	}
	return &engine{options: o}
}

// failOn is an Options.Fault that fails the n-th batch and leaves its instance
// alive.
func failOn(n int64) func(executors.Model, int64) *wire.Error {
	return faultOn(n, wire.CodeInternal, "emulated failure")
}

// CrashOn is an Options.Fault that breaks the instance of the n-th batch.
func CrashOn(n int64) func(executors.Model, int64) *wire.Error {
	return faultOn(n, wire.CodeUnavailable, "emulated crash")
}

func faultOn(n int64, code wire.Code, what string) func(executors.Model, int64) *wire.Error {
	return func(m executors.Model, batch int64) *wire.Error {
		if batch != n {
			return nil
		}
		return wire.Errorf(code, m.Module.Name, "%s at batch %d", what, n)
	}
}

type engine struct {
	options Options
	batches atomic.Int64 // run so far by all instances; counted only for Fault
}

// Name is "emulated".
func (e *engine) Name() string { return "emulated" }

// Version changes with the meaning of durations.
func (e *engine) Version() string { return "1" }

// Signature is what Options.Signatures knows; otherwise inputs in the order of
// the declaration that take anything, and no outputs.
func (e *engine) Signature(m pipelines.Module) (pipelines.Signature, error) {
	sig, _ := e.signature(executors.Model{Module: m})
	return sig, nil
}

// Load looks up the durations. It fails when the profile says nothing about
// the hardware, or about a batch as large as the model is to run.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	durations, err := e.durations(m)
	if err != nil {
		return nil, err
	}
	sig, known := e.signature(m)
	return &instance{
		engine:    e,
		model:     m,
		signature: sig,
		durations: durations,
		memory:    memory(m),
		outputs:   newOutputs(sig, m.OutputRows, known, e.options.Echo),
	}, nil
}

// signature says whether it comes from Options.Signatures.
func (e *engine) signature(m executors.Model) (pipelines.Signature, bool) {
	if e.options.Signatures != nil {
		if sig, err := e.options.Signatures(m.Module); err == nil && len(sig.Outputs) > 0 {
			return sig, true
		}
	}
	var sig pipelines.Signature
	for _, b := range m.Module.Inputs {
		if b.IsConstant() {
			continue // nothing is computed of it
		}
		sig.Inputs = append(sig.Inputs, pipelines.Port{Name: b.Name})
	}
	for _, name := range m.Outputs {
		port := pipelines.Port{Name: name, Datatype: "FP32", Shape: []int64{1}}
		if _, scattered := m.OutputRows[name]; scattered {
			port.Shape = []int64{-1, 1}
		}
		sig.Outputs = append(sig.Outputs, port)
	}
	return sig, false
}

// durations returns the duration of every batch size from 0 to the largest.
func (e *engine) durations(m executors.Model) ([]time.Duration, error) {
	largest := max(m.MaxBatch, 1)
	table := make([]time.Duration, largest+1)
	latency := m.Module.Profile.Latency(m.Hardware)
	for n := 1; n <= largest; n++ {
		if e.options.Duration != nil {
			table[n] = e.options.Duration(m, n)
			continue
		}
		if m.Module.Sized && len(latency) > 0 { // queries are not padded
			table[n] = latency.At(n)
			continue
		}
		point, ok := smallest(m, n)
		if !ok {
			return nil, missing(m, n)
		}
		table[n] = point.Duration
	}
	return table, nil
}

// smallest finds the point of the smallest measured batch of at least n.
func smallest(m executors.Model, n int) (pipelines.Point, bool) {
	var best pipelines.Point
	for _, p := range m.Module.Profile.Points {
		if p.Hardware == m.Hardware && max(p.Concurrency, 1) == max(m.Concurrency, 1) &&
			p.Batch >= n && (best.Batch == 0 || p.Batch < best.Batch) {
			best = p
		}
	}
	return best, best.Batch > 0
}

func missing(m executors.Model, n int) error {
	return fmt.Errorf("executors/emulated: the profile of module %q has no point for hardware %q, batch %d or more, concurrency %d; "+
		"add it to the profile, or name a batch and hardware that it holds", m.Module.Name, m.Hardware, n, max(m.Concurrency, 1))
}

// memory is the most that the profile says of this hardware, in bytes.
func memory(m executors.Model) int64 {
	var most float64
	for _, p := range m.Module.Profile.Points {
		if p.Hardware == m.Hardware {
			most = max(most, p.MemoryMiB)
		}
	}
	return int64(most * (1 << 20))
}
