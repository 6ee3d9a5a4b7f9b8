//go:build cgo

package onnxruntime

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/harpagon/harpagon/wire"
)

// view is memory that ONNX Runtime reads or writes as a tensor.
type view struct {
	data   []byte
	value  ort.Value // nil when there is none
	copied bool      // the value holds what data held
}

func (p *view) is(data []byte) bool {
	if p.value == nil || p.copied {
		return p.value != nil && bytes.Equal(p.data, data)
	}
	return len(p.data) == len(data) && unsafe.SliceData(p.data) == unsafe.SliceData(data)
}

func (p *view) free() {
	if p.value != nil {
		_ = p.value.Destroy()
	}
	*p = view{}
}

// inPlace reports whether tensors of the kind can lie in memory of ours: scalars and
// strings are copied.
func inPlace(datatype string, shape []int64) bool { return len(shape) > 0 && datatype != wire.Bytes }

// set makes the memory a tensor.
func (p *view) set(data []byte, datatype string, shape []int64) error {
	p.free()
	kind, ok := elementTypes()[datatype]
	if !ok {
		return invalid("", "this engine does not take %s", datatype)
	}
	if !inPlace(datatype, shape) {
		v, err := copied(data, datatype, shape)
		if err != nil {
			return err
		}
		p.data, p.value, p.copied = slices.Clone(data), v, true
		return nil
	}
	from := data
	if len(from) == 0 { // a tensor of no elements; none has no address
		from = make([]byte, 1)
	}
	v, err := ort.NewCustomDataTensor(shape, from, ort.TensorElementDataType(kind))
	if err != nil {
		return failed(err)
	}
	p.data, p.value = data, v
	return nil
}

// copied is a tensor with a copy of the data.
func copied(data []byte, datatype string, shape []int64) (ort.Value, error) {
	if datatype == wire.Bytes {
		return texts(data, shape)
	}
	v, err := scalar(datatype, data)
	if err != nil {
		return nil, failed(err)
	}
	if v == nil {
		return nil, invalid("", "a scalar of %s is not taken by this engine; export the model with shape [1] in its place", datatype)
	}
	return v, nil
}

func texts(data []byte, shape []int64) (ort.Value, error) {
	if len(shape) == 0 {
		return nil, invalid("", "a scalar of BYTES is not taken by this engine; export the model with shape [1] in its place")
	}
	all, err := wire.Tensor{Datatype: wire.Bytes, Shape: shape, Data: data}.Strings()
	if err != nil {
		return nil, invalid("", "%v", err)
	}
	for _, s := range all {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, invalid("", "a string holds a byte of 0, where ONNX Runtime's strings end")
		}
	}
	v, err := ort.NewStringTensor(shape)
	if err != nil {
		return nil, failed(err)
	}
	if err := v.SetContents(all); err != nil {
		_ = v.Destroy()
		return nil, failed(err)
	}
	return v, nil
}

// scalar is a tensor without dimensions; nil for datatypes that the binding has no
// scalars of.
func scalar(datatype string, data []byte) (ort.Value, error) {
	if len(data) != wire.Size(datatype) {
		return nil, nil
	}
	le := binary.LittleEndian
	switch datatype {
	case wire.FP32:
		return value(ort.NewScalar(math.Float32frombits(le.Uint32(data))))
	case wire.FP64:
		return value(ort.NewScalar(math.Float64frombits(le.Uint64(data))))
	case wire.Int8:
		return value(ort.NewScalar(int8(data[0])))
	case wire.Int16:
		return value(ort.NewScalar(int16(le.Uint16(data))))
	case wire.Int32:
		return value(ort.NewScalar(int32(le.Uint32(data))))
	case wire.Int64:
		return value(ort.NewScalar(int64(le.Uint64(data))))
	case wire.Uint8:
		return value(ort.NewScalar(data[0]))
	case wire.Uint16:
		return value(ort.NewScalar(le.Uint16(data)))
	case wire.Uint32:
		return value(ort.NewScalar(le.Uint32(data)))
	case wire.Uint64:
		return value(ort.NewScalar(le.Uint64(data)))
	case wire.Bool:
		return value(ort.NewScalar(data[0] != 0))
	}
	return nil, nil
}

// value keeps a nil pointer out of the interface.
func value[T ort.Value](v T, err error) (ort.Value, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// content is an output's datatype and bytes, which outlive the value.
func content(v ort.Value) (string, []byte) {
	switch t := v.(type) {
	case *ort.CustomDataTensor: // of ours, because the binding has no such slices
		for _, datatype := range []string{wire.FP16, wire.BF16} {
			if uint32(elementTypes()[datatype]) == uint32(t.DataType()) {
				return datatype, t.GetData()
			}
		}
	case *ort.StringTensor:
		if all, err := t.GetContents(); err == nil {
			return wire.Bytes, wire.FromStrings(all).Data
		}
	case *ort.Tensor[float32]:
		return wire.FP32, raw(t.GetData())
	case *ort.Tensor[float64]:
		return wire.FP64, raw(t.GetData())
	case *ort.Tensor[int8]:
		return wire.Int8, raw(t.GetData())
	case *ort.Tensor[int16]:
		return wire.Int16, raw(t.GetData())
	case *ort.Tensor[int32]:
		return wire.Int32, raw(t.GetData())
	case *ort.Tensor[int64]:
		return wire.Int64, raw(t.GetData())
	case *ort.Tensor[uint8]:
		return wire.Uint8, raw(t.GetData())
	case *ort.Tensor[uint16]:
		return wire.Uint16, raw(t.GetData())
	case *ort.Tensor[uint32]:
		return wire.Uint32, raw(t.GetData())
	case *ort.Tensor[uint64]:
		return wire.Uint64, raw(t.GetData())
	case *ort.Tensor[bool]:
		return wire.Bool, raw(t.GetData())
	}
	return scalarContent(v)
}

func scalarContent(v ort.Value) (string, []byte) {
	switch t := v.(type) {
	case *ort.Scalar[float32]:
		return wire.FP32, one(t.GetData())
	case *ort.Scalar[float64]:
		return wire.FP64, one(t.GetData())
	case *ort.Scalar[int8]:
		return wire.Int8, one(t.GetData())
	case *ort.Scalar[int16]:
		return wire.Int16, one(t.GetData())
	case *ort.Scalar[int32]:
		return wire.Int32, one(t.GetData())
	case *ort.Scalar[int64]:
		return wire.Int64, one(t.GetData())
	case *ort.Scalar[uint8]:
		return wire.Uint8, one(t.GetData())
	case *ort.Scalar[uint16]:
		return wire.Uint16, one(t.GetData())
	case *ort.Scalar[uint32]:
		return wire.Uint32, one(t.GetData())
	case *ort.Scalar[uint64]:
		return wire.Uint64, one(t.GetData())
	case *ort.Scalar[bool]:
		return wire.Bool, one(t.GetData())
	}
	return "", nil
}

func one[T any](v T) []byte { return raw([]T{v}) }

// raw is the memory of the elements: every system that ONNX Runtime is built
// for is little-endian, as the wire is.
func raw[T any](data []T) []byte {
	if len(data) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(data[0])))
}
