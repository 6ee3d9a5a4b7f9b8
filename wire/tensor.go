// Package wire holds what a client, a gateway and an executor exchange: tensors, inference
// requests and answers, and the one typed error.
//
// A Tensor is raw memory as the Open Inference Protocol carries it, so that a
// picture travels from the client's socket to the engine without being taken
// apart. The constructors From... build tensors from Go slices and the
// accessors Float32s, Float16s, Bools, Strings and so on read them back; both copy.
//
// Tensors are values that several requests and goroutines may share. Nobody
// writes into Data or Shape after a tensor has been handed on.
//
// Sub-packages speak the protocols: wire/oip the Open Inference Protocol
// between client and gateway, wire/attach the stream between gateway and
// executor; wire/stream has the connections that this takes between hosts.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Tensor is a dense array as the Open Inference Protocol carries it: elements
// in row-major order, little-endian, without padding. BYTES elements are each
// preceded by their length as a little-endian uint32.
type Tensor struct {
	Datatype string // "FP32", "UINT8", "INT64", "BYTES", ...
	Shape    []int64
	Data     []byte
}

// NamedTensor is a tensor with the name of the port that it belongs to.
type NamedTensor struct {
	Name string
	Tensor
}

// Tensors are those of named ones, in their order.
func Tensors(named []NamedTensor) []Tensor {
	all := make([]Tensor, len(named))
	for i := range named {
		all[i] = named[i].Tensor
	}
	return all
}

// DataSize is how many bytes the data of tensors are.
func DataSize(tensors []Tensor) (n int64) {
	for i := range tensors {
		n += int64(len(tensors[i].Data))
	}
	return n
}

// Names of the datatypes, as the Open Inference Protocol spells them.
const (
	Bool   = "BOOL"
	Uint8  = "UINT8"
	Uint16 = "UINT16"
	Uint32 = "UINT32"
	Uint64 = "UINT64"
	Int8   = "INT8"
	Int16  = "INT16"
	Int32  = "INT32"
	Int64  = "INT64"
	FP16   = "FP16"
	BF16   = "BF16"
	FP32   = "FP32"
	FP64   = "FP64"
	Bytes  = "BYTES"
)

// Size is the number of bytes of one element of the datatype: 0 for BYTES,
// whose elements differ in length, and -1 for a datatype that does not exist.
func Size(datatype string) int {
	switch datatype {
	case Bool, Uint8, Int8:
		return 1
	case Uint16, Int16, FP16, BF16:
		return 2
	case Uint32, Int32, FP32:
		return 4
	case Uint64, Int64, FP64:
		return 8
	case Bytes:
		return 0
	}
	return -1
}

// Zeros is a tensor of zeros, or of empty texts, of a shape without open dimensions.
func Zeros(datatype string, shape []int64) Tensor {
	t := Tensor{Datatype: datatype, Shape: slices.Clone(shape)}
	size := Size(datatype)
	if datatype == Bytes {
		size = 4 // the length of an empty text
	}
	t.Data = make([]byte, max(0, t.Len()*size))
	return t
}

// Len is the number of elements of the shape: the product of its dimensions, 1 for a scalar. It
// is -1 when a dimension is negative or the product does not fit.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		if d < 0 {
			return -1
		}
		if d > 0 && int64(n) > math.MaxInt/d {
			return -1
		}
		n *= int(d)
	}
	return n
}

// Validate checks that datatype, shape and data agree: the datatype exists, no
// dimension is negative, and Data holds exactly as many elements as the shape. The error names
// the one that does not.
func (t Tensor) Validate() error {
	size, n := Size(t.Datatype), t.Len()
	switch {
	case size < 0:
		return fmt.Errorf("wire: unknown datatype %q; use one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES", t.Datatype)
	case n < 0:
		return fmt.Errorf("wire: shape %v has a negative dimension or too many elements", t.Shape)
	case size == 0:
		return t.validateBytes(n)
	case len(t.Data)%size != 0 || len(t.Data)/size != n:
		return fmt.Errorf("wire: shape %v of %s needs %d elements of %d bytes, but there are %d bytes of data", t.Shape, t.Datatype, n, size, len(t.Data))
	}
	return nil
}

// validateBytes walks the lengths of a BYTES tensor.
func (t Tensor) validateBytes(n int) error {
	data, found := t.Data, 0
	for len(data) > 0 {
		if len(data) < 4 {
			return fmt.Errorf("wire: BYTES element %d has no complete length", found)
		}
		size := uint64(binary.LittleEndian.Uint32(data))
		if uint64(len(data)-4) < size {
			return fmt.Errorf("wire: BYTES element %d has a length of %d bytes, but only %d follow", found, size, len(data)-4)
		}
		data = data[4+size:]
		found++
	}
	if found != n {
		return fmt.Errorf("wire: shape %v needs %d elements, but the data holds %d", t.Shape, n, found)
	}
	return nil
}

// NotFinite is the first number of a tensor that JSON has no word for, NaN or an infinity;
// false where there is none.
func (t *Tensor) NotFinite() (float64, bool) {
	switch t.Datatype {
	case FP32:
		for i := 0; i+4 <= len(t.Data); i += 4 {
			if bits := binary.LittleEndian.Uint32(t.Data[i:]); bits>>23&0xff == 0xff {
				return float64(math.Float32frombits(bits)), true
			}
		}
	case FP64:
		for i := 0; i+8 <= len(t.Data); i += 8 {
			if bits := binary.LittleEndian.Uint64(t.Data[i:]); bits>>52&0x7ff == 0x7ff {
				return math.Float64frombits(bits), true
			}
		}
	}
	return 0, false
}

// Stack puts tensors of one datatype and shape behind each other along a new
// first dimension. There must be at least one.
func Stack(rows []Tensor) (Tensor, error) {
	first, total := rows[0], 0
	for i, row := range rows {
		if row.Datatype != first.Datatype || !slices.Equal(row.Shape, first.Shape) {
			return Tensor{}, fmt.Errorf("wire: item 1 is %s %v and item %d is %s %v",
				first.Datatype, first.Shape, i+1, row.Datatype, row.Shape)
		}
		total += len(row.Data)
	}
	t := Tensor{Datatype: first.Datatype, Data: make([]byte, 0, total)}
	t.Shape = append(append(make([]int64, 0, 1+len(first.Shape)), int64(len(rows))), first.Shape...)
	for _, row := range rows {
		t.Data = append(t.Data, row.Data...)
	}
	return t, nil
}

// Rows takes a tensor apart along its first dimension, which it must have. The
// rows alias its memory.
func Rows(t Tensor) ([]Tensor, error) {
	if len(t.Shape) == 0 || t.Shape[0] < 0 {
		return nil, fmt.Errorf("wire: shape %v has no first dimension to take apart", t.Shape)
	}
	// Every row but those of empty tensors takes memory, so that the shape alone cannot request
	// much.
	if n := t.Shape[0]; n > int64(len(t.Data)) && n > maxEmptyRows {
		return nil, fmt.Errorf("wire: %s %v has only %d bytes", t.Datatype, t.Shape, len(t.Data))
	}
	rows := make([]Tensor, t.Shape[0])
	row := Tensor{Datatype: t.Datatype, Shape: t.Shape[1:]}
	rest, size := t.Data, Size(t.Datatype)*row.Len()
	for i := range rows {
		if t.Datatype == Bytes {
			size = bytesLen(rest, row.Len())
		}
		if size < 0 || size > len(rest) {
			return nil, fmt.Errorf("wire: %s %v has only %d bytes", t.Datatype, t.Shape, len(t.Data))
		}
		row.Data = rest[:size:size]
		rows[i], rest = row, rest[size:]
	}
	return rows, nil
}

// maxEmptyRows bounds the rows of a tensor that holds fewer bytes than rows.
const maxEmptyRows = 1 << 16

// bytesLen is the length of the first n elements of BYTES data; -1 when there
// are fewer.
func bytesLen(data []byte, n int) int {
	at := 0
	for range n {
		if len(data)-at < 4 {
			return -1
		}
		size := int(binary.LittleEndian.Uint32(data[at:]))
		if size < 0 || len(data)-at-4 < size {
			return -1
		}
		at += 4 + size
	}
	return at
}
