package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
)

// FromFloat32 makes an FP32 tensor of the shape. Without a shape it is a
// vector; Reshape() makes a scalar of one element. The data is copied. Validate reports whether
// its length fits the shape.
func FromFloat32(data []float32, shape ...int64) Tensor {
	return from(FP32, data, shape, func(to []byte, v float32) { binary.LittleEndian.PutUint32(to, math.Float32bits(v)) })
}

// FromFloat64 makes an FP64 tensor; see FromFloat32.
func FromFloat64(data []float64, shape ...int64) Tensor {
	return from(FP64, data, shape, func(to []byte, v float64) { binary.LittleEndian.PutUint64(to, math.Float64bits(v)) })
}

// FromFloat16 makes an FP16 tensor, each element the nearest of IEEE 754 binary16,
// ties to even; what is too large becomes an infinity. See FromFloat32.
func FromFloat16(data []float32, shape ...int64) Tensor {
	return from(FP16, data, shape, func(to []byte, v float32) { binary.LittleEndian.PutUint16(to, half(v)) })
}

// FromBFloat16 makes a BF16 tensor, each element the nearest of bfloat16, ties to
// even. See FromFloat32.
func FromBFloat16(data []float32, shape ...int64) Tensor {
	return from(BF16, data, shape, func(to []byte, v float32) { binary.LittleEndian.PutUint16(to, brain(v)) })
}

// FromUint8 makes a UINT8 tensor; see FromFloat32.
func FromUint8(data []uint8, shape ...int64) Tensor {
	return Tensor{Datatype: Uint8, Shape: shapeOf(len(data), shape), Data: append(make([]byte, 0, len(data)), data...)}
}

// FromInt32 makes an INT32 tensor; see FromFloat32.
func FromInt32(data []int32, shape ...int64) Tensor {
	return from(Int32, data, shape, func(to []byte, v int32) { binary.LittleEndian.PutUint32(to, uint32(v)) })
}

// FromInt64 makes an INT64 tensor; see FromFloat32.
func FromInt64(data []int64, shape ...int64) Tensor {
	return from(Int64, data, shape, func(to []byte, v int64) { binary.LittleEndian.PutUint64(to, uint64(v)) })
}

// FromBools makes a BOOL tensor, one byte of 0 or 1 an element; see FromFloat32.
func FromBools(data []bool, shape ...int64) Tensor {
	return from(Bool, data, shape, func(to []byte, v bool) {
		if v {
			to[0] = 1
		}
	})
}

// FromStrings makes a BYTES tensor, one element a string; see FromFloat32.
func FromStrings(data []string, shape ...int64) Tensor {
	total := 0
	for _, s := range data {
		total += 4 + len(s)
	}
	t := Tensor{Datatype: Bytes, Shape: shapeOf(len(data), shape), Data: make([]byte, 0, total)}
	for _, s := range data {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(len(s)))
		t.Data = append(t.Data, s...)
	}
	return t
}

// from makes a tensor whose elements put writes, each into the bytes of its
// datatype.
func from[T any](datatype string, data []T, shape []int64, put func(to []byte, v T)) Tensor {
	size := Size(datatype)
	t := Tensor{Datatype: datatype, Shape: shapeOf(len(data), shape), Data: make([]byte, len(data)*size)}
	for i, v := range data {
		put(t.Data[i*size:], v)
	}
	return t
}

// shapeOf is the shape, or that of a vector of n where there is none.
func shapeOf(n int, shape []int64) []int64 {
	if len(shape) == 0 {
		return []int64{int64(n)}
	}
	return slices.Clone(shape)
}

// Reshape returns the same elements under another shape; without dimensions
// it is a scalar, the shape of a single element.
func (t Tensor) Reshape(shape ...int64) Tensor {
	t.Shape = append(make([]int64, 0, len(shape)), shape...)
	return t
}

// Float32s returns the elements of an FP32 tensor in row-major order.
func (t Tensor) Float32s() ([]float32, error) {
	return values(t, FP32, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// Float64s returns the elements of an FP64 tensor in row-major order.
func (t Tensor) Float64s() ([]float64, error) {
	return values(t, FP64, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
}

// Float16s returns the elements of an FP16 tensor, which float32 holds exactly,
// in row-major order.
func (t Tensor) Float16s() ([]float32, error) {
	return values(t, FP16, func(b []byte) float32 { return fromHalf(binary.LittleEndian.Uint16(b)) })
}

// BFloat16s returns the elements of a BF16 tensor, which float32 holds exactly, in
// row-major order.
func (t Tensor) BFloat16s() ([]float32, error) {
	return values(t, BF16, func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) })
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
	return values(t, Int32, func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
}

// Int64s returns the elements of an INT64 tensor in row-major order.
func (t Tensor) Int64s() ([]int64, error) {
	return values(t, Int64, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
}

// Bools returns the elements of a BOOL tensor in row-major order. Any byte but 0
// is true.
func (t Tensor) Bools() ([]bool, error) {
	return values(t, Bool, func(b []byte) bool { return b[0] != 0 })
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

// values reads the elements of a tensor of the datatype, each from its bytes.
func values[T any](t Tensor, datatype string, get func([]byte) T) ([]T, error) {
	if err := t.as(datatype); err != nil {
		return nil, err
	}
	size := Size(datatype)
	out := make([]T, len(t.Data)/size)
	for i := range out {
		out[i] = get(t.Data[i*size:])
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

// The layout of binary16: 1 sign bit, 5 of the exponent, 10 of the fraction.
const (
	halfInf      = 0x7c00
	halfFraction = 10
	halfBias     = 15
)

// half rounds to the nearest binary16, ties to even.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	exponent, fraction := int(bits>>23&0xff), bits&(1<<23-1)
	if exponent == 0xff {
		if fraction != 0 { // NaN stays one
			return sign | halfInf | 1<<(halfFraction-1) | uint16(fraction>>13)
		}
		return sign | halfInf
	}
	// The value is fraction / 2^shift in units of the last place of the result.
	fraction |= 1 << 23
	shift, e := 13, exponent-127+halfBias
	if e < 1 { // subnormal: all share the least exponent
		shift, e = shift+1-e, 1
	}
	if shift > 24 {
		return sign // below half of the least
	}
	whole, rest, tie := fraction>>shift, fraction&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > tie || rest == tie && whole&1 == 1 {
		whole++ // may carry into the exponent, which is then right
	}
	result := uint32(e-1)<<halfFraction + whole
	if result >= halfInf {
		return sign | halfInf
	}
	return sign | uint16(result)
}

// fromHalf is exact.
func fromHalf(b uint16) float32 {
	sign := uint32(b&0x8000) << 16
	exponent, fraction := uint32(b>>halfFraction&0x1f), uint32(b&(1<<halfFraction-1))
	switch exponent {
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	case 0:
		v := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (exponent-halfBias+127)<<23 | fraction<<13)
}

// brain rounds to the nearest bfloat16, ties to even.
func brain(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 1<<6 // NaN stays one
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromConstant is a declaration's constant as a tensor.
func FromConstant(c pipelines.Constant) Tensor {
	t := Tensor{Datatype: c.Datatype, Shape: append([]int64{}, c.Shape...)}
	for _, e := range c.Elements {
		t.Data = appendElement(t.Data, c.Datatype, e)
	}
	return t
}

// appendElement adds one element, which pipelines.ConstantAt has checked.
func appendElement(to []byte, datatype string, element any) []byte {
	switch e := element.(type) {
	case string:
		return append(binary.LittleEndian.AppendUint32(to, uint32(len(e))), e...)
	case bool:
		return append(to, FromBools([]bool{e}).Data...)
	case float64:
		return appendNumber(to, datatype, e)
	}
	return to
}

func appendNumber(to []byte, datatype string, x float64) []byte {
	switch datatype {
	case FP16:
		return binary.LittleEndian.AppendUint16(to, half(float32(x)))
	case BF16:
		return binary.LittleEndian.AppendUint16(to, brain(float32(x)))
	case FP32:
		return binary.LittleEndian.AppendUint32(to, math.Float32bits(float32(x)))
	case FP64:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(x))
	case Uint64:
		return binary.LittleEndian.AppendUint64(to, uint64(x))
	}
	// Two's complement: the low bytes of an int64 are those of shorter numbers.
	whole := binary.LittleEndian.AppendUint64(nil, uint64(int64(x)))
	return append(to, whole[:Size(datatype)]...)
}
