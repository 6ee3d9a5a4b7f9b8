package oip

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/harpagon/harpagon/wire"
)

// mostClasses bounds how many classes may be wanted of a row.
const mostClasses = 1000

// Want adds that so many classes are wanted of an output, 1 to 1000; 0 is no wish, and any other
// number an error.
func Want(classes map[string]int, output string, n int64) (map[string]int, error) {
	if n < 0 || n > mostClasses {
		return nil, invalid("output %q: the parameter %s is not how many classes are wanted, from 1 to %d", output, ClassificationKey, mostClasses)
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
// wanted, or stays as long as it is. grow is asked before memory for them is used, see Bounds. Any
// other error is of code "invalid".
func Classify(r *wire.InferResponse, classes map[string]int, grow func(n int64) error) (*wire.InferResponse, error) {
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
		var top []class
		for at := 0; row > 0 && at < len(t.Data); at += row * size {
			if most := len(data) + n*longestClass(t.Datatype); most > cap(data) {
				most = max(most, 2*cap(data))
				if grow != nil {
					if err := grow(int64(most - cap(data))); err != nil {
						return nil, err
					}
				}
				data = append(make([]byte, 0, most), data...)
			}
			of := t.Data[at : at+row*size]
			top = largest(top[:0], t.Datatype, of, n)
			data = appendClasses(data, t.Datatype, of, top)
		}
		t.Shape = append(slices.Clone(t.Shape[:max(len(t.Shape)-1, 0)]), int64(n))
		t.Datatype, t.Data = wire.Bytes, data
	}
	return &out, nil
}

// longestClass is the most bytes of one class: its length, sign, digits, a point and six
// decimals, and a colon and an index.
func longestClass(datatype string) int {
	const length, index = 4, 1 + 19
	switch datatype {
	case wire.FP32:
		return length + 1 + 39 + 7 + index
	case wire.FP64:
		return length + 1 + 309 + 7 + index
	}
	return length + 20 + index
}

// class is an element of a row by its rank.
type class struct {
	rank  uint64
	index int
}

// largest adds the n largest elements of a row, in order.
func largest(top []class, datatype string, row []byte, n int) []class {
	best := func() {
		slices.SortFunc(top, func(a, b class) int { return cmp.Or(cmp.Compare(b.rank, a.rank), a.index-b.index) })
		top = top[:min(n, len(top))]
	}
	size, least, full := wire.Size(datatype), uint64(0), false
	for i := range len(row) / size {
		c := class{rank(datatype, row[i*size:][:size]), i}
		if full && c.rank <= least { // equal ones come after those of lower index
			continue
		}
		if top = append(top, c); len(top) == 2*n {
			best()
			least, full = top[n-1].rank, true
		}
	}
	best()
	return top
}

// appendClasses adds the texts of elements of a row.
func appendClasses(to []byte, datatype string, row []byte, top []class) []byte {
	size := wire.Size(datatype)
	for _, c := range top {
		var room [64]byte
		text, raw := room[:0], row[c.index*size:][:size]
		if f, ok := float(datatype, raw); ok {
			text = strconv.AppendFloat(text, f, 'f', 6, 64)
		} else if whole, err := formatValue(text, datatype, raw); err == nil { // always: a whole number
			text = whole
		}
		text = strconv.AppendInt(append(text, ':'), int64(c.index), 10)
		to = append(binary.LittleEndian.AppendUint32(to, uint32(len(text))), text...)
	}
	return to
}

// rank is a number in the order of elements of one datatype; NaN is the least.
func rank(datatype string, raw []byte) uint64 {
	const sign = 1 << 63
	if f, ok := float(datatype, raw); ok {
		switch b := math.Float64bits(f); {
		case math.IsNaN(f):
			return 0
		case f < 0:
			return ^b
		default:
			return b | sign // 0 and -0 are equal
		}
	}
	switch datatype {
	case wire.Int8, wire.Int16, wire.Int32, wire.Int64:
		shift := 64 - 8*len(raw)
		return uint64(int64(readInt(raw)<<shift)>>shift) ^ sign
	}
	return readInt(raw)
}

// float is an element of a datatype that is one.
func float(datatype string, raw []byte) (f float64, ok bool) {
	switch datatype {
	case wire.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case wire.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}
