package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// FromFloat32 makes an FP32 tensor of the shape. Without a shape it is a
// vector; Reshape() makes a scalar of one element. The data is copied. Whether
// its length fits the shape is for Validate to say.
func FromFloat32(data []float32, shape ...int64) Tensor {
	t := empty(FP32, len(data), 4, shape)
	for i, v := range data {
		binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(v))
	}
	return t
}

// FromFloat64 makes an FP64 tensor; see FromFloat32.
func FromFloat64(data []float64, shape ...int64) Tensor {
	t := empty(FP64, len(data), 8, shape)
	for i, v := range data {
		binary.LittleEndian.PutUint64(t.Data[8*i:], math.Float64bits(v))
	}
	return t
}

// FromUint8 makes a UINT8 tensor; see FromFloat32.
func FromUint8(data []uint8, shape ...int64) Tensor {
	t := empty(Uint8, len(data), 1, shape)
	copy(t.Data, data)
	return t
}

// FromInt32 makes an INT32 tensor; see FromFloat32.
func FromInt32(data []int32, shape ...int64) Tensor {
	t := empty(Int32, len(data), 4, shape)
	for i, v := range data {
		binary.LittleEndian.PutUint32(t.Data[4*i:], uint32(v))
	}
	return t
}

// FromInt64 makes an INT64 tensor; see FromFloat32.
func FromInt64(data []int64, shape ...int64) Tensor {
	t := empty(Int64, len(data), 8, shape)
	for i, v := range data {
		binary.LittleEndian.PutUint64(t.Data[8*i:], uint64(v))
	}
	return t
}

// FromStrings makes a BYTES tensor, one element a string; see FromFloat32.
func FromStrings(data []string, shape ...int64) Tensor {
	total := 0
	for _, s := range data {
		total += 4 + len(s)
	}
	t := empty(Bytes, len(data), 0, shape)
	t.Data = make([]byte, 0, total)
	for _, s := range data {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(len(s)))
		t.Data = append(t.Data, s...)
	}
	return t
}

// Reshape returns the same elements under another shape; without dimensions
// it is a scalar, the shape of a single element.
func (t Tensor) Reshape(shape ...int64) Tensor {
	t.Shape = append(make([]int64, 0, len(shape)), shape...)
	return t
}

func empty(datatype string, n, size int, shape []int64) Tensor {
	if len(shape) == 0 {
		shape = []int64{int64(n)}
	} else {
		shape = slices.Clone(shape)
	}
	return Tensor{Datatype: datatype, Shape: shape, Data: make([]byte, n*size)}
}

// Float32s returns the elements of an FP32 tensor in row-major order.
func (t Tensor) Float32s() ([]float32, error) {
	if err := t.as(FP32); err != nil {
		return nil, err
	}
	out := make([]float32, len(t.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return out, nil
}

// Float64s returns the elements of an FP64 tensor in row-major order.
func (t Tensor) Float64s() ([]float64, error) {
	if err := t.as(FP64); err != nil {
		return nil, err
	}
	out := make([]float64, len(t.Data)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	return out, nil
}

// Uint8s returns a copy of the elements of a UINT8 tensor in row-major order.
func (t Tensor) Uint8s() ([]uint8, error) {
	if err := t.as(Uint8); err != nil {
		return nil, err
	}
	return append(make([]uint8, 0, len(t.Data)), t.Data...), nil
}

// Int32s returns the elements of an INT32 tensor in row-major order.
func (t Tensor) Int32s() ([]int32, error) {
	if err := t.as(Int32); err != nil {
		return nil, err
	}
	out := make([]int32, len(t.Data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return out, nil
}

// Int64s returns the elements of an INT64 tensor in row-major order.
func (t Tensor) Int64s() ([]int64, error) {
	if err := t.as(Int64); err != nil {
		return nil, err
	}
	out := make([]int64, len(t.Data)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	return out, nil
}

// Strings returns the elements of a BYTES tensor in row-major order.
func (t Tensor) Strings() ([]string, error) {
	if err := t.as(Bytes); err != nil {
		return nil, err
	}
	out := make([]string, 0, t.Len())
	for data := t.Data; len(data) > 0; {
		n := 4 + int(binary.LittleEndian.Uint32(data))
		out = append(out, string(data[4:n]))
		data = data[n:]
	}
	return out, nil
}

// as checks that the tensor is sound and of the datatype.
func (t Tensor) as(datatype string) error {
	if t.Datatype != datatype {
		return fmt.Errorf("wire: the tensor holds %s, not %s", quoteEmpty(t.Datatype), datatype)
	}
	return t.Validate()
}

func quoteEmpty(datatype string) string {
	if datatype == "" {
		return "no datatype"
	}
	return datatype
}
