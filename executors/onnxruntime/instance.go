package onnxruntime

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// maxBatch bounds the requests of one batch.
const maxBatch = 4096

// Bounds of the buckets that are kept: their number, which should be above that
// of the batch sizes in use, and the bytes of their inputs.
const (
	maxKept      = 256
	maxKeptBytes = 256 << 20
)

// network is a loaded model. It is used by one goroutine at a time.
type network interface {
	// bucket makes buffers for inputs of these shapes, batch included.
	bucket(shapes [][]int64) (bucket, error)
	close() error
}

// bucket runs batches of one shape.
type bucket interface {
	// input is the memory of input j, to be filled.
	input(j int) ([]byte, error)
	// read takes input j from where it lies.
	read(j int, data []byte) error
	// run gives the outputs with the batch dimension. Their data are the
	// caller's, and lie in what lend has given where lend is not nil and gives
	// enough.
	run(ctx context.Context, lend func(int) []byte) ([]wire.Tensor, error)
	close()
}

// instance is a model that runs batches of up to most requests.
type instance struct {
	module    string
	signature pipelines.Signature
	most      int
	fixed     int // the first dimension where the model fixes it; 0 where it is open
	memory    int64

	mu      sync.Mutex // Close may come during a Run
	network network    // nil once closed
	kept    map[string]bucket
	bytes   int // of the inputs of those that are kept
	key     []byte
	like    []int
}

func (in *instance) Signature() pipelines.Signature { return in.signature }

// Memory is by how much the process grew while loading and warming up; 0 on a
// GPU.
func (in *instance) Memory() int64 { return in.memory }

// Close frees the model. It waits for a batch that runs.
func (in *instance) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.network == nil {
		return nil
	}
	in.forget()
	err := in.network.close()
	in.network = nil
	return err
}

// Run computes a batch, one bucket of equal shapes after the other.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	return in.RunPlaced(ctx, items, nil)
}

// RunPlaced is Run with outputs that ONNX Runtime writes to where they are
// wanted. Inputs that lie one after the other are read there as well. With nil
// for lend, inputs and outputs are copied.
func (in *instance) RunPlaced(ctx context.Context, items [][]wire.Tensor, lend func(int) []byte) ([][]wire.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, wire.Errorf(wire.CodeCanceled, in.module, "%v", err)
	}
	if len(items) < 1 || len(items) > in.most {
		return nil, invalid(in.module, "a batch of %d requests was sent to an engine that was loaded for 1 to %d", len(items), in.most)
	}
	for i, item := range items {
		if err := executors.Check(in.signature.Inputs, item); err != nil {
			return nil, invalid(in.module, "request %d of the batch: %v", i+1, err)
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.network == nil {
		return nil, wire.Errorf(wire.CodeUnavailable, in.module, "onnxruntime: the model has been closed")
	}
	answers := make([][]wire.Tensor, len(items))
	for from := range items {
		if answers[from] != nil {
			continue
		}
		if err := in.runLike(ctx, items, answers, from, lend); err != nil {
			return nil, named(err, in.module)
		}
	}
	return answers, nil
}

// runLike runs all items from the first on that have its shapes.
func (in *instance) runLike(ctx context.Context, items, answers [][]wire.Tensor, first int, lend func(int) []byte) error {
	like := in.like[:0]
	for i := first; i < len(items); i++ {
		if answers[i] == nil && sameShapes(items[first], items[i]) {
			like = append(like, i)
		}
	}
	in.like = like
	b, err := in.bucketFor(items[first], len(like))
	if err != nil {
		return err
	}
	for j := range items[first] {
		if err := in.feed(b, items, like, j, lend != nil); err != nil {
			return err
		}
	}
	outputs, err := b.run(ctx, lend)
	if err != nil {
		return err
	}
	return in.split(outputs, max(len(like), in.fixed), like, answers)
}

// feed gives the bucket its input j: where it lies, if it stays there and is in
// one piece, or else a copy.
func (in *instance) feed(b bucket, items [][]wire.Tensor, like []int, j int, stays bool) error {
	if stays && len(like) >= in.fixed {
		if data := joined(items, like, j); data != nil {
			return b.read(j, data)
		}
	}
	to, err := b.input(j)
	if err != nil {
		return err
	}
	for _, i := range like {
		to = to[copy(to, items[i][j].Data):]
	}
	clear(to) // what a fixed batch leaves over
	return nil
}

func sameShapes(a, b []wire.Tensor) bool {
	for j := range a {
		if !slices.Equal(a[j].Shape, b[j].Shape) {
			return false
		}
	}
	return true
}

// bucketFor is the bucket for n requests like the item.
func (in *instance) bucketFor(item []wire.Tensor, n int) (bucket, error) {
	if in.fixed > 0 {
		n = in.fixed
	}
	in.key = binary.AppendUvarint(in.key[:0], uint64(n))
	for j := range item {
		for _, d := range item[j].Shape { // their number is the signature's
			in.key = binary.AppendUvarint(in.key, uint64(d))
		}
	}
	if b := in.kept[string(in.key)]; b != nil {
		return b, nil
	}
	shapes := make([][]int64, len(item))
	for j := range item {
		shapes[j] = append([]int64{int64(n)}, item[j].Shape...)
		if slices.Contains(item[j].Shape, 0) {
			return nil, invalid("", "input %q has no elements: its shape is %v", in.signature.Inputs[j].Name, item[j].Shape)
		}
	}
	size := 0
	for j := range item {
		size += n * len(item[j].Data)
	}
	if len(in.kept) >= maxKept || in.bytes+size > maxKeptBytes {
		in.forget()
	}
	b, err := in.network.bucket(shapes)
	if err != nil {
		return nil, err
	}
	if in.kept == nil {
		in.kept = make(map[string]bucket)
	}
	in.kept[string(in.key)] = b
	in.bytes += size
	return b, nil
}

func (in *instance) forget() {
	for _, b := range in.kept {
		b.close()
	}
	clear(in.kept)
	in.bytes = 0
}

// split hands the rows of the outputs to the requests.
func (in *instance) split(outputs []wire.Tensor, rows int, like []int, answers [][]wire.Tensor) error {
	for j := range outputs {
		if t := &outputs[j]; len(t.Shape) == 0 || t.Shape[0] != int64(rows) {
			return wire.Errorf(wire.CodeInvalid, "", "onnxruntime: output %q has shape %v for a batch of %d: its first dimension is not the batch; export the model with a batch dimension",
				in.signature.Outputs[j].Name, t.Shape, rows)
		}
	}
	all := make([]wire.Tensor, len(like)*len(outputs))
	for k, i := range like {
		answers[i], all = all[:len(outputs):len(outputs)], all[len(outputs):]
		for j := range outputs {
			t := &outputs[j]
			each := len(t.Data) / rows
			answers[i][j] = wire.Tensor{Datatype: t.Datatype, Shape: t.Shape[1:], Data: t.Data[k*each : (k+1)*each : (k+1)*each]}
		}
	}
	return nil
}
