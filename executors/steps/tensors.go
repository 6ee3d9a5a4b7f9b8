package steps

import (
	"encoding/binary"
	"math"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func fp32(name string, shape ...int64) pipelines.Port {
	if shape == nil {
		shape = []int64{}
	}
	return pipelines.Port{Name: name, Datatype: "FP32", Shape: shape}
}

// blank is an FP32 tensor of zeros.
func blank(shape ...int64) wire.Tensor {
	if shape == nil {
		shape = []int64{}
	}
	return wire.Tensor{Datatype: "FP32", Shape: shape, Data: make([]byte, 4*count(shape))}
}

func count(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// at reads element i of FP32 data.
func at(data []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}

// put writes element i of FP32 data.
func put(data []byte, i int, x float32) {
	binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
