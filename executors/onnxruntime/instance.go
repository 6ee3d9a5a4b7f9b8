package onnxruntime

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
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
	// bucket makes buffers for a batch of n, inputs of these shapes, n included.
	bucket(shapes [][]int64, n int) (bucket, error)
	close() error
}

// bucket runs batches of one shape.
type bucket interface {
	// input is the memory of input j, to be filled; nil where the input is not read
	// from memory, as scalars and strings are.
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
	signature pipelines.Signature  // of what is sent
	constants *executors.Constants // what is not
	layout    onnx.Layout
	single    bool // no tensor has a batch dimension
	most      int
	fixed     int // the batch dimension where the model fixes it; 0 where it is open
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
	items = in.constants.Fill(items)
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
		if answers[i] == nil && in.alike(items[first], items[i]) {
			if like = append(like, i); in.single {
				break
			}
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

// alike says whether two requests may run as one batch: their tensors have the
// same shapes, and those that the batch shares hold the same.
func (in *instance) alike(a, b []wire.Tensor) bool {
	for j := range a {
		if !slices.Equal(a[j].Shape, b[j].Shape) || in.layout.In[j] < 0 && !bytes.Equal(a[j].Data, b[j].Data) {
			return false
		}
	}
	return true
}

// bucketFor is the bucket for n requests like the item.
func (in *instance) bucketFor(item []wire.Tensor, n int) (bucket, error) {
	n = max(n, in.fixed)
	in.key = binary.AppendUvarint(in.key[:0], uint64(n))
	for j := range item {
		for _, d := range item[j].Shape { // as many as the signature's
			in.key = binary.AppendUvarint(in.key, uint64(d))
		}
	}
	if b := in.kept[string(in.key)]; b != nil {
		return b, nil
	}
	shapes := make([][]int64, len(item))
	for j := range item {
		shapes[j] = batched(item[j].Shape, in.layout.In[j], n)
		if slices.Contains(item[j].Shape, 0) {
			return nil, invalid("", "input %q has no elements: its shape is %v", in.layout.Signature.Inputs[j].Name, item[j].Shape)
		}
	}
	size := 0
	for j := range item {
		size += n * len(item[j].Data)
	}
	if len(in.kept) >= maxKept || in.bytes+size > maxKeptBytes {
		in.forget()
	}
	b, err := in.network.bucket(shapes, n)
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
