package wire

import (
	"encoding/binary"
	"math"

	"github.com/harpagon/harpagon/pipelines"
)

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
