// Package gorgonia is the engine that needs nothing but Go: it runs ONNX
// programs on gorgonia's graphs and tape machines, on the CPU, in float32.
//
// Gorgonia fixes the batch size in the graph, so an instance holds one graph
// and machine for every batch size that it was loaded for, its buckets; a batch
// in between is padded up to the next. A machine is reset before every run,
// since without that gorgonia keeps the last output silently.
//
// A panic inside gorgonia happens in a goroutine of its own and ends the
// process. Every shape is therefore checked beforehand (package onnx), and
// programs that serve run this engine in a child process (package child).
package gorgonia

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Name is this engine's name in declarations.
const Name = "gorgonia"

// maxBucket bounds the batch size of one graph.
const maxBucket = 1024

// building guards the construction of graphs, because gorgonia numbers nodes
// with a global counter that is not safe for concurrent use.
var building sync.Mutex

type engine struct{}

// New returns the engine.
func New() executors.Engine { return engine{} }

func (engine) Name() string { return Name }

// Version names gorgonia and this engine's way of using it: change the second
// part when measured durations may change.
func (engine) Version() string { return "v0.9.18-1" }

// Load compiles the module's model and builds and runs one graph for every
// batch size.
func (engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if m.Module.Model == "" {
		return nil, wire.Errorf(wire.CodeInvalid, m.Module.Name, "gorgonia: there is no model; set model to an ONNX file")
	}
	if err := executors.BatchFirst(m.Module); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, m.Module.Name, "gorgonia: %v", err)
	}
	p, err := onnx.Load(m.Module.Model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("gorgonia: module %q: %w", m.Module.Name, err)
	}
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, m.Module.Name, "gorgonia: %v", err)
	}
	in, err := newInstance(ctx, p, m.Batches)
	if err == nil && m.Module.Unbatched {
		in = executors.OneByOne(in)
	}
	return in, err
}

// newInstance builds an instance of a compiled program for the given batch
// sizes; none means 1 only.
func newInstance(ctx context.Context, p *onnx.Program, batches []int) (executors.Instance, error) {
	sizes := slices.Clone(batches)
	if len(sizes) == 0 {
		sizes = []int{1}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	if sizes[0] < 1 || sizes[len(sizes)-1] > maxBucket {
		return nil, wire.Errorf(wire.CodeInvalid, "", "gorgonia: batch sizes %v are not all between 1 and %d", sizes, maxBucket)
	}
	in := &instance{program: p, signature: p.Signature()}
	for _, size := range sizes {
		if err := ctx.Err(); err != nil {
			_ = in.Close()
			return nil, err
		}
		b, err := newBucket(p, size)
		if err == nil {
			in.buckets = append(in.buckets, b)
			err = b.run() // the first run of a graph is slower than the rest
		}
		if err != nil {
			_ = in.Close()
			return nil, fmt.Errorf("gorgonia: %s at batch %d: %w", p.Name, size, err)
		}
	}
	return in, nil
}

type instance struct {
	program   *onnx.Program
	signature pipelines.Signature
	buckets   []*bucket // by rising size
}

func (in *instance) Signature() pipelines.Signature { return in.signature }

// Memory counts every tensor of every bucket at four bytes an element.
func (in *instance) Memory() int64 {
	total := int64(0)
	for _, b := range in.buckets {
		total += b.memory
	}
	return total
}

// Run computes one batch in the smallest bucket that holds it.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, wire.Errorf(wire.CodeCanceled, "", "%v", err)
	}
	at := slices.IndexFunc(in.buckets, func(b *bucket) bool { return b.size >= len(items) })
	if at < 0 || len(items) == 0 {
		return nil, wire.Errorf(wire.CodeInvalid, "", "gorgonia: a batch of %d was sent to an engine loaded for other sizes", len(items))
	}
	b := in.buckets[at]
	if err := b.fill(in.signature.Inputs, items); err != nil {
		return nil, err
	}
	if err := b.run(); err != nil {
		return nil, wire.Errorf(wire.CodeInternal, "", "gorgonia: %v", err)
	}
	return b.read(in.signature.Outputs, len(items))
}

// Close frees the machines.
func (in *instance) Close() error {
	for _, b := range in.buckets {
		_ = b.machine.Close()
	}
	in.buckets = nil
	return nil
}
