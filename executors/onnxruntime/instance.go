package onnxruntime

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"unsafe"

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

// alike reports whether two requests may run as one batch: their tensors have the
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

// batched puts the batch dimension of n into the shape of one request.
func batched(shape []int64, axis, n int) []int64 {
	if axis < 0 {
		return slices.Clone(shape)
	}
	return slices.Insert(slices.Clone(shape), axis, int64(n))
}

// pieces is in how many pieces the tensor of one request lies in that of a batch:
// as many as there are elements before the batch axis, but one where there are none.
func pieces(shape []int64, axis int) int {
	n := 1
	for _, d := range shape[:max(axis, 0)] {
		n *= int(d)
	}
	return max(n, 1)
}

// feed gives the bucket its input j: where it lies, if it stays there and is in
// one piece, or else a copy.
func (in *instance) feed(b bucket, items [][]wire.Tensor, like []int, j int, stays bool) error {
	first, axis := &items[like[0]][j], in.layout.In[j]
	if axis < 0 {
		like = like[:1]
	}
	full := max(len(like), in.fixed)
	if axis < 0 {
		full = 1
	}
	parts := pieces(first.Shape, axis)
	if full == 1 {
		parts = 1
	}
	if stays && len(like) >= full && parts == 1 {
		if data := joined(items, like, j); data != nil {
			return b.read(j, data)
		}
	}
	to, err := b.input(j)
	if err != nil {
		return err
	}
	if to == nil {
		return in.texts(b, items, like, j, full, parts)
	}
	// Of every request one piece after the other, and zeros for what a fixed batch
	// leaves over.
	size := len(first.Data) / parts
	for p := range parts {
		for _, i := range like {
			to = to[copy(to, items[i][j].Data[p*size:(p+1)*size]):]
		}
		rest := (full - len(like)) * size
		clear(to[:rest])
		to = to[rest:]
	}
	return nil
}

// texts gives the bucket an input that it takes in one piece: strings of several
// requests, or a scalar.
func (in *instance) texts(b bucket, items [][]wire.Tensor, like []int, j, full, parts int) error {
	if parts > 1 {
		return invalid("", "input %q is BYTES with another batch axis than the first, which this engine does not take; export the model with the batch first", in.layout.Signature.Inputs[j].Name)
	}
	var data []byte
	for _, i := range like {
		data = append(data, items[i][j].Data...)
	}
	if left := full - len(like); left > 0 { // empty strings
		data = append(data, make([]byte, left*items[like[0]][j].Len()*lengthSize)...)
	}
	return b.read(j, data)
}

// lengthSize is that of the length before each string of a BYTES tensor.
const lengthSize = 4

// split hands the outputs to the requests, each its own part.
func (in *instance) split(outputs []wire.Tensor, rows int, like []int, answers [][]wire.Tensor) error {
	all := make([]wire.Tensor, len(like)*len(outputs))
	for _, i := range like {
		answers[i], all = all[:len(outputs):len(outputs)], all[len(outputs):]
	}
	for j := range outputs {
		if err := in.part(&outputs[j], j, rows, like, answers); err != nil {
			return err
		}
	}
	return nil
}

// part hands out output j.
func (in *instance) part(t *wire.Tensor, j, rows int, like []int, answers [][]wire.Tensor) error {
	axis := in.layout.Out[j]
	if axis < 0 {
		if t.Shape == nil {
			t.Shape = []int64{}
		}
		for _, i := range like {
			answers[i][j] = *t
		}
		return nil
	}
	if axis >= len(t.Shape) || t.Shape[axis] != int64(rows) {
		name := in.layout.Signature.Outputs[j].Name
		return wire.Errorf(wire.CodeInternal, "", "onnxruntime: output %q has shape %v for a batch of %d: dimension %d is not the batch; "+
			"name it with batch_axis = { %s = ... }, or \"none\" where all requests of a batch share it, or batching = false",
			name, t.Shape, rows, axis, name)
	}
	shape := slices.Delete(slices.Clone(t.Shape), axis, axis+1)
	parts := pieces(shape, axis)
	if rows == 1 {
		parts = 1
	}
	if t.Datatype == wire.Bytes {
		return in.strings(t, j, axis, like, answers)
	}
	size := len(t.Data) / (rows * parts)
	for k, i := range like {
		answers[i][j] = wire.Tensor{Datatype: t.Datatype, Shape: shape}
		if parts == 1 {
			answers[i][j].Data = t.Data[k*size : (k+1)*size : (k+1)*size]
			continue
		}
		data := make([]byte, 0, parts*size)
		for p := range parts {
			at := (p*rows + k) * size
			data = append(data, t.Data[at:at+size]...)
		}
		answers[i][j].Data = data
	}
	return nil
}

// strings hands out an output whose elements differ in length.
func (in *instance) strings(t *wire.Tensor, j, axis int, like []int, answers [][]wire.Tensor) error {
	if axis > 0 {
		return invalid("", "output %q is BYTES with another batch axis than the first, which this engine does not give; export the model with the batch first", in.layout.Signature.Outputs[j].Name)
	}
	rows, err := wire.Rows(*t)
	if err != nil {
		return wire.Errorf(wire.CodeInternal, "", "onnxruntime: %v", err)
	}
	for k, i := range like {
		answers[i][j] = rows[k]
	}
	return nil
}

// joined is what input j has in all the items, where it lies in one piece; nil
// otherwise.
func joined(items [][]wire.Tensor, like []int, j int) []byte {
	first := items[like[0]][j].Data
	begin, n := unsafe.SliceData(first), 0
	for _, i := range like {
		data := items[i][j].Data
		if len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data))) != uintptr(unsafe.Pointer(begin))+uintptr(n) {
			return nil
		}
		n += len(data)
	}
	return unsafe.Slice(begin, n)
}

// warmUp runs every batch size on zeros; a model whose sizes are unknown is not warmed up. tuned
// means that the provider chooses kernels for each size.
func (in *instance) warmUp(ctx context.Context, sizes []int, feeds map[string]pipelines.Port, tuned bool) error {
	item, ok := executors.WarmItem(in.signature.Inputs, feeds)
	if !ok {
		return nil
	}
	run := func(ctx context.Context, n int) error {
		_, err := in.Run(ctx, slices.Repeat([][]wire.Tensor{item}, n))
		return err
	}
	if err := executors.WarmUp(ctx, sizes, run); err != nil {
		return err
	}
	if tuned {
		executors.WarmBetween(ctx, sizes, run)
	}
	return ctx.Err()
}

// resident is the memory of this process that is in use, in bytes; 0 where the system does not
// report it.
func resident() int64 { return residentOf(os.Getpid()) }

func residentOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
