// Package reference computes ONNX programs by direct loops in float64: slow,
// plain, and meant to be obviously right. It is what the engines' results are
// held to in tests.
package reference

import (
	"fmt"
	"math"

	"github.com/harpagon/harpagon/executors/onnx"
)

// Run computes the program's outputs for one request. inputs[i] holds the
// elements of input i in row-major order; so does the result for outputs.
func Run(p *onnx.Program, inputs [][]float32) ([][]float32, error) {
	if len(inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("reference: %d inputs for a program of %d", len(inputs), len(p.Inputs))
	}
	values := make([][]float64, len(p.Values))
	for i := range p.Values {
		values[i] = widen(p.Values[i].Const)
	}
	for i, at := range p.Inputs {
		if len(inputs[i]) != p.Values[at].Len() {
			return nil, fmt.Errorf("reference: input %q has %d elements, not %d", p.Values[at].Name, len(inputs[i]), p.Values[at].Len())
		}
		values[at] = widen(inputs[i])
	}
	for _, s := range p.Steps {
		values[s.Output] = step(p, s, values)
	}
	outputs := make([][]float32, len(p.Outputs))
	for i, at := range p.Outputs {
		outputs[i] = make([]float32, len(values[at]))
		for j, v := range values[at] {
			outputs[i][j] = float32(v)
		}
	}
	return outputs, nil
}

func widen(from []float32) []float64 {
	to := make([]float64, len(from))
	for i, v := range from {
		to[i] = float64(v)
	}
	return to
}

func step(p *onnx.Program, s onnx.Step, values [][]float64) []float64 {
	x := values[s.Inputs[0]]
	in, out := p.Values[s.Inputs[0]].Dims, p.Values[s.Output].Dims
	switch s.Op {
	case "Conv":
		return conv(s.Window, x, in, values[s.Inputs[1]], values[s.Inputs[2]], out)
	case "MaxPool":
		return maxPool(s.Window, x, in, out)
	case "GlobalAveragePool":
		return globalAveragePool(x, in)
	case "Gemm":
		return gemm(x, values[s.Inputs[1]], values[s.Inputs[2]])
	case "Softmax":
		return softmax(x)
	case "Add":
		return pairs(x, values[s.Inputs[1]], func(a, b float64) float64 { return a + b })
	case "Mul":
		return pairs(x, values[s.Inputs[1]], func(a, b float64) float64 { return a * b })
	case "Relu":
		return each(x, func(v float64) float64 { return math.Max(v, 0) })
	case "Sigmoid":
		return each(x, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) })
	case "Tanh":
		return each(x, math.Tanh)
	case "Identity", "Reshape":
		return x
	}
	panic("reference: no rule for operator " + s.Op)
}

func each(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func pairs(a, b []float64, f func(a, b float64) float64) []float64 {
	y := make([]float64, len(a))
	for i := range a {
		y[i] = f(a[i], b[i])
	}
	return y
}

func conv(w onnx.Window, x []float64, in []int, weights, bias []float64, out []int) []float64 {
	y := make([]float64, out[0]*out[1]*out[2])
	for m := range out[0] {
		for oy := range out[1] {
			for ox := range out[2] {
				sum := bias[m]
				for c := range in[0] {
					for ky := range w.Kernel[0] {
						for kx := range w.Kernel[1] {
							iy := oy*w.Stride[0] + ky*w.Dilation[0] - w.Pad[0]
							ix := ox*w.Stride[1] + kx*w.Dilation[1] - w.Pad[1]
							if iy < 0 || iy >= in[1] || ix < 0 || ix >= in[2] {
								continue
							}
							sum += x[(c*in[1]+iy)*in[2]+ix] * weights[((m*in[0]+c)*w.Kernel[0]+ky)*w.Kernel[1]+kx]
						}
					}
				}
				y[(m*out[1]+oy)*out[2]+ox] = sum
			}
		}
	}
	return y
}

func maxPool(w onnx.Window, x []float64, in, out []int) []float64 {
	y := make([]float64, out[0]*out[1]*out[2])
	for c := range out[0] {
		for oy := range out[1] {
			for ox := range out[2] {
				best := math.Inf(-1)
				for ky := range w.Kernel[0] {
					for kx := range w.Kernel[1] {
						iy, ix := oy*w.Stride[0]+ky-w.Pad[0], ox*w.Stride[1]+kx-w.Pad[1]
						if iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2] {
							best = math.Max(best, x[(c*in[1]+iy)*in[2]+ix])
						}
					}
				}
				y[(c*out[1]+oy)*out[2]+ox] = best
			}
		}
	}
	return y
}

func globalAveragePool(x []float64, in []int) []float64 {
	y := make([]float64, in[0])
	area := in[1] * in[2]
	for c := range y {
		for _, v := range x[c*area : (c+1)*area] {
			y[c] += v / float64(area)
		}
	}
	return y
}

func gemm(x, weights, bias []float64) []float64 {
	y := make([]float64, len(bias))
	copy(y, bias)
	for i, v := range x {
		for j := range y {
			y[j] += v * weights[i*len(y)+j]
		}
	}
	return y
}

func softmax(x []float64) []float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = math.Max(largest, v)
	}
	sum := 0.0
	y := each(x, func(v float64) float64 {
		e := math.Exp(v - largest)
		sum += e
		return e
	})
	for i := range y {
		y[i] /= sum
	}
	return y
}
