package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Len is the number of elements that the shape says: the product of its
// dimensions, 1 for a scalar. It is -1 when a dimension is negative or the
// product does not fit.
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
// dimension is negative, and Data holds exactly as many elements as the shape
// says. The error says which does not.
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
			return fmt.Errorf("wire: BYTES element %d says %d bytes, but only %d follow", found, size, len(data)-4)
		}
		data = data[4+size:]
		found++
	}
	if found != n {
		return fmt.Errorf("wire: shape %v needs %d elements, but the data holds %d", t.Shape, n, found)
	}
	return nil
}
