//go:build cgo

package onnxruntime

import (
	"context"
	"reflect"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// buffers run batches of one shape. What is prepared for a place, an input's or an output's, is
// kept for the next batch that has it there.
type buffers struct {
	session *session
	shapes  [][]int64
	own     []view // inputs in our memory
	lent    []view // inputs that are read where they lie
	to      []view // outputs that are written where they are wanted
	values  []ort.Value
	outputs []ort.Value
	expect  []expected       // the outputs that are made before a run
	known   []pipelines.Port // of the outputs, batch included; nil before the first run
	vary    bool             // the outputs cannot be placed: their shapes depend on what the inputs hold, or they are scalars or strings
}

func (s *session) bucket(shapes [][]int64, n int) (bucket, error) {
	for _, p := range s.ports.Inputs {
		if _, ok := elementTypes()[p.Datatype]; !ok {
			return nil, invalid("", "input %q is %s, which this engine does not take", p.Name, p.Datatype)
		}
	}
	in, out := len(s.ports.Inputs), len(s.ports.Outputs)
	return &buffers{
		session: s, shapes: shapes, expect: s.expect(n), own: make([]view, in), lent: make([]view, in), to: make([]view, out),
		values: make([]ort.Value, in), outputs: make([]ort.Value, out),
	}, nil
}

func (b *buffers) input(j int) ([]byte, error) {
	p := &b.own[j]
	datatype := b.session.ports.Inputs[j].Datatype
	if !inPlace(datatype, b.shapes[j]) {
		return nil, nil
	}
	if p.value == nil {
		if err := p.set(make([]byte, bytesOf(datatype, b.shapes[j])), datatype, b.shapes[j]); err != nil {
			return nil, err
		}
	}
	b.values[j] = p.value
	return p.data, nil
}

func bytesOf(datatype string, shape []int64) int {
	n := wire.Size(datatype)
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

func (b *buffers) read(j int, data []byte) error {
	p := &b.lent[j]
	if !p.is(data) {
		if err := p.set(data, b.session.ports.Inputs[j].Datatype, b.shapes[j]); err != nil {
			return err
		}
	}
	b.values[j] = p.value
	return nil
}

func (b *buffers) close() {
	for _, places := range [][]view{b.own, b.lent, b.to} {
		for j := range places {
			places[j].free()
		}
	}
	clear(b.values)
}

func (b *buffers) run(ctx context.Context, lend func(int) []byte) ([]wire.Tensor, error) {
	if lend != nil && b.known != nil && !b.vary && b.aim(lend) {
		if err := b.compute(ctx); err == nil || ctx.Err() != nil {
			return b.placed(), err
		}
		// Either the batch is bad, or its outputs have other shapes than those
		// of the batches before; ONNX Runtime distinguishes them by text only.
		tensors, err := b.fresh(ctx)
		b.vary = err == nil
		return tensors, err
	}
	return b.fresh(ctx)
}

// aim makes memory of the caller's the place of every output; false when there
// is not enough.
func (b *buffers) aim(lend func(int) []byte) bool {
	for j := range b.to {
		p, known := &b.to[j], &b.known[j]
		data := lend(bytesOf(known.Datatype, known.Shape))
		if data == nil || !p.is(data) && p.set(data, known.Datatype, known.Shape) != nil {
			return false
		}
		b.outputs[j] = p.value
	}
	return true
}

func (b *buffers) placed() []wire.Tensor {
	tensors := make([]wire.Tensor, len(b.to))
	for j := range b.to {
		tensors[j] = wire.Tensor{Datatype: b.known[j].Datatype, Shape: b.known[j].Shape, Data: b.to[j].data}
	}
	return tensors
}

// fresh computes into memory that ONNX Runtime and the binding provide.
func (b *buffers) fresh(ctx context.Context) ([]wire.Tensor, error) {
	clear(b.outputs)
	defer func() {
		for _, v := range b.outputs {
			// An output that the binding could not convert is a nil pointer.
			if v != nil && !reflect.ValueOf(v).IsNil() {
				_ = v.Destroy()
			}
		}
		clear(b.outputs)
	}()
	if err := b.attempt(ctx); err != nil {
		return nil, err
	}
	tensors := make([]wire.Tensor, len(b.outputs))
	known := make([]pipelines.Port, len(b.outputs))
	for j, v := range b.outputs {
		datatype, data := content(v)
		if datatype == "" {
			return nil, invalid("", "output %q is of a type that this engine does not give; export the model with FP32 or integer outputs", b.session.ports.Outputs[j].Name)
		}
		known[j] = pipelines.Port{Datatype: datatype, Shape: v.GetShape()}
		b.vary = b.vary || !inPlace(datatype, known[j].Shape)
		tensors[j] = wire.Tensor{Datatype: datatype, Shape: slices.Clone(known[j].Shape), Data: data[:min(len(data), bytesIn(datatype, known[j].Shape, data))]}
	}
	b.known = known
	return tensors, nil
}

// attempt computes with the outputs that are expected, and again as often as ONNX Runtime
// requires another shape of one of them.
func (b *buffers) attempt(ctx context.Context) error {
	for tries := 0; ; tries++ {
		for j, e := range b.expect {
			if e.shape == nil {
				continue
			}
			if b.outputs[j] != nil {
				_ = b.outputs[j].Destroy()
			}
			var err error
			if b.outputs[j], err = e.make(); err != nil {
				b.outputs[j] = nil
				return err
			}
		}
		err := b.compute(ctx)
		if err == nil || ctx.Err() != nil || tries > len(b.expect) || !learn(b.expect, err) {
			return err
		}
	}
}

// bytesIn is the length of an output's data; of strings all that there is.
func bytesIn(datatype string, shape []int64, data []byte) int {
	if datatype == wire.Bytes {
		return len(data)
	}
	return bytesOf(datatype, shape)
}

// compute runs the network. A context that ends stops it between two nodes.
func (b *buffers) compute(ctx context.Context) error {
	told := make(chan struct{})
	running := context.AfterFunc(ctx, func() { defer close(told); _ = b.session.stop.Terminate() })
	err := b.session.run.RunWithOptions(b.values, b.outputs, b.session.stop)
	if !running() {
		<-told
		_ = b.session.stop.UnsetTerminate()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return wire.Errorf(wire.CodeCanceled, "", "onnxruntime: %v", ctx.Err())
	case err != nil:
		return invalid("", "the model does not take this batch: %v", err)
	}
	return nil
}
