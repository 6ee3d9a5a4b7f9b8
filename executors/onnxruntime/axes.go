package onnxruntime

import (
	"slices"

	"github.com/harpagon/harpagon/wire"
)

// batched puts the batch dimension of n into the shape of one request.
func batched(shape []int64, axis, n int) []int64 {
	if axis < 0 {
		return slices.Clone(shape)
	}
	return slices.Insert(slices.Clone(shape), axis, int64(n))
}

// pieces is in how many pieces the tensor of one request lies in that of a batch:
// as many as there are elements before the batch axis.
func pieces(shape []int64, axis int) int {
	n := 1
	for _, d := range shape[:max(axis, 0)] {
		n *= int(d)
	}
	return n
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
			"say which is with batch_axis = { %s = ... }, or \"none\" where all requests of a batch share it, or batching = false",
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
