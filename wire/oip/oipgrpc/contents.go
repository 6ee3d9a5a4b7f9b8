package oipgrpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// reason is the text of an error without the prefix that says where it is from.
func reason(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return strings.TrimPrefix(err.Error(), "wire: ")
}

// listed says whether the datatype has a list of its own.
func listed(datatype string) bool { return datatype != wire.FP16 && datatype != wire.BF16 }

// empty says that no list holds anything.
func empty(c *pb.InferTensorContents) bool {
	return len(c.GetBoolContents()) == 0 && len(c.GetIntContents()) == 0 && len(c.GetInt64Contents()) == 0 &&
		len(c.GetUintContents()) == 0 && len(c.GetUint64Contents()) == 0 && len(c.GetFp32Contents()) == 0 &&
		len(c.GetFp64Contents()) == 0 && len(c.GetBytesContents()) == 0
}

// packed makes raw data of the list that goes with the datatype. Elements in
// another list are missed by the shape, which then asks for more.
func packed(datatype string, c *pb.InferTensorContents) ([]byte, error) {
	switch datatype {
	case wire.Bool:
		out := make([]byte, len(c.GetBoolContents()))
		for i, v := range c.GetBoolContents() {
			if v {
				out[i] = 1
			}
		}
		return out, nil
	case wire.Int8, wire.Int16, wire.Int32:
		return narrow(datatype, c.GetIntContents(), func(v int32, bits int) bool { return v<<(32-bits)>>(32-bits) == v })
	case wire.Uint8, wire.Uint16, wire.Uint32:
		return narrow(datatype, c.GetUintContents(), func(v uint32, bits int) bool { return v<<(32-bits)>>(32-bits) == v })
	case wire.Int64:
		return wire.FromInt64(c.GetInt64Contents()).Data, nil
	case wire.Uint64:
		out := make([]byte, 0, 8*len(c.GetUint64Contents()))
		for _, v := range c.GetUint64Contents() {
			out = binary.LittleEndian.AppendUint64(out, v)
		}
		return out, nil
	case wire.FP32:
		return wire.FromFloat32(c.GetFp32Contents()).Data, nil
	case wire.FP64:
		return wire.FromFloat64(c.GetFp64Contents()).Data, nil
	case wire.Bytes:
		var out []byte
		for _, v := range c.GetBytesContents() {
			out = append(binary.LittleEndian.AppendUint32(out, uint32(len(v))), v...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has no typed contents; send it raw", datatype)
}

// narrow writes numbers of 32 bits in as many as the datatype has.
func narrow[T int32 | uint32](datatype string, list []T, fits func(v T, bits int) bool) ([]byte, error) {
	size := wire.Size(datatype)
	out := make([]byte, 0, size*len(list))
	for _, v := range list {
		if !fits(v, 8*size) {
			return nil, fmt.Errorf("%d is not a value of %s", v, datatype)
		}
		for i := range size {
			out = append(out, byte(v>>(8*i)))
		}
	}
	return out, nil
}

// unpacked makes the list of a sound tensor.
func unpacked(t *wire.Tensor) (*pb.InferTensorContents, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	c := &pb.InferTensorContents{}
	size := wire.Size(t.Datatype)
	for rest := t.Data; len(rest) > 0; {
		if t.Datatype == wire.Bytes {
			size = 4 + int(binary.LittleEndian.Uint32(rest))
		}
		unpack(c, t.Datatype, rest[:size])
		rest = rest[size:]
	}
	return c, nil
}

func unpack(c *pb.InferTensorContents, datatype string, raw []byte) {
	switch datatype {
	case wire.Bool:
		c.BoolContents = append(c.BoolContents, raw[0] != 0)
	case wire.Int8:
		c.IntContents = append(c.IntContents, int32(int8(raw[0])))
	case wire.Int16:
		c.IntContents = append(c.IntContents, int32(int16(binary.LittleEndian.Uint16(raw))))
	case wire.Int32:
		c.IntContents = append(c.IntContents, int32(binary.LittleEndian.Uint32(raw)))
	case wire.Int64:
		c.Int64Contents = append(c.Int64Contents, int64(binary.LittleEndian.Uint64(raw)))
	case wire.Uint8:
		c.UintContents = append(c.UintContents, uint32(raw[0]))
	case wire.Uint16:
		c.UintContents = append(c.UintContents, uint32(binary.LittleEndian.Uint16(raw)))
	case wire.Uint32:
		c.UintContents = append(c.UintContents, binary.LittleEndian.Uint32(raw))
	case wire.Uint64:
		c.Uint64Contents = append(c.Uint64Contents, binary.LittleEndian.Uint64(raw))
	case wire.FP32:
		c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case wire.FP64:
		c.Fp64Contents = append(c.Fp64Contents, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	case wire.Bytes:
		c.BytesContents = append(c.BytesContents, raw[4:])
	}
}
