package oip

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/harpagon/harpagon/wire"
)

// Want adds that so many classes are wanted of an output; none is an error, 0 is no wish.
func Want(classes map[string]int, output string, n int64) (map[string]int, error) {
	if n < 0 || n > math.MaxInt32 {
		return nil, invalid("output %q: the parameter %s is %d; it is how many classes are wanted", output, ClassificationKey, n)
	}
	if n > 0 && classes == nil {
		classes = make(map[string]int)
	}
	if n > 0 {
		classes[output] = int(n)
	}
	return classes, nil
}

// Classify is the answer with the largest elements in place of outputs of which classes are wanted,
// by the protocol's extension: BYTES, each "VALUE:INDEX", the largest first, and of equal ones that
// of the lower index. Indices count along the last dimension, which is then as long as the classes
// wanted, or stays as long as it is. The error is of code "invalid".
func Classify(r *wire.InferResponse, classes map[string]int) (*wire.InferResponse, error) {
	if len(classes) == 0 {
		return r, nil
	}
	out := *r
	out.Outputs = slices.Clone(r.Outputs)
	for i := range out.Outputs {
		t := &out.Outputs[i]
		n := classes[t.Name]
		if n == 0 {
			continue
		}
		size := wire.Size(t.Datatype)
		if size <= 0 || t.Datatype == wire.Bool || t.Datatype == wire.FP16 || t.Datatype == wire.BF16 {
			return nil, invalid("output %q is %s, which has no classes; ask for it without %s", t.Name, t.Datatype, ClassificationKey)
		}
		row := 1
		if len(t.Shape) > 0 {
			row = int(t.Shape[len(t.Shape)-1])
		}
		n = min(n, row)
		var data []byte
		for at := 0; row > 0 && at < len(t.Data); at += row * size {
			data = appendClasses(data, t.Datatype, t.Data[at:at+row*size], n)
		}
		t.Shape = append(slices.Clone(t.Shape[:max(len(t.Shape)-1, 0)]), int64(n))
		t.Datatype, t.Data = wire.Bytes, data
	}
	return &out, nil
}

// appendClasses adds the n largest elements of a row.
func appendClasses(to []byte, datatype string, row []byte, n int) []byte {
	size := wire.Size(datatype)
	values, order := make([]float64, len(row)/size), make([]int, len(row)/size)
	for i := range values {
		values[i], order[i] = number(datatype, row[i*size:][:size]), i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := values[a], values[b]; {
		case x > y, math.IsNaN(y) && !math.IsNaN(x):
			return -1
		case x < y, math.IsNaN(x) && !math.IsNaN(y):
			return 1
		}
		return 0
	})
	for _, i := range order[:n] {
		var room [64]byte
		text := room[:0]
		if datatype == wire.FP32 || datatype == wire.FP64 {
			text = strconv.AppendFloat(text, values[i], 'f', 6, 64)
		} else if whole, err := formatValue(text, datatype, row[i*size:][:size]); err == nil { // always: a whole number
			text = whole
		}
		text = strconv.AppendInt(append(text, ':'), int64(i), 10)
		to = append(binary.LittleEndian.AppendUint32(to, uint32(len(text))), text...)
	}
	return to
}

// number is an element as one that can be compared.
func number(datatype string, raw []byte) float64 {
	switch datatype {
	case wire.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case wire.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw))
	case wire.Int8, wire.Int16, wire.Int32, wire.Int64:
		shift := 64 - 8*len(raw)
		return float64(int64(readInt(raw)<<shift) >> shift)
	}
	return float64(readInt(raw))
}
