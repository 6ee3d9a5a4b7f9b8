package steps

import (
	"context"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Normalize turns the pixels of a picture into a network's input.
//
//	image       FP32 or UINT8 [3, H, W]: red, green and blue
//	normalized  FP32 [3, H, W]: (pixel·gain - mean) / deviation
//
// Parameters: mean, deviation, order, datatype, gain, as for Letterbox.
func Normalize() Function {
	return Function{Doc: "a picture's pixels, shifted and scaled", Prepare: prepareNormalize}
}

func prepareNormalize(p *Parameters) (Step, error) {
	n := readNormal(p)
	image := n.port("image")
	image.Shape[0] = 3
	return Step{
		Signature: pipelines.Signature{Inputs: []pipelines.Port{image}, Outputs: []pipelines.Port{fp32("normalized", 3, -1, -1)}},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			in := inputs[0]
			out := blank(in.Shape...)
			area := int(in.Shape[1] * in.Shape[2])
			for c := range 3 {
				for i, x := range n.floats(in, n.source(c)) {
					put(out.Data, c*area+i, n.value(c, x))
				}
			}
			return []wire.Tensor{out}, nil
		},
	}, nil
}

// normal says how the three channels of a picture become a network's input:
// (pixel·gain - mean) / deviation, in the order that the network wants.
type normal struct {
	pixels
	mean, deviation [3]float32 // by channel of the network
	reversed        bool       // the network wants blue, green, red
}

// readNormal reads the parameters datatype, gain, mean, deviation and order.
func readNormal(p *Parameters) normal {
	n := normal{pixels: readPixels(p), reversed: p.Choice("order", "rgb", "bgr") == "bgr"}
	copy(n.mean[:], p.channels("mean", 0, -1e6))
	copy(n.deviation[:], p.channels("deviation", 1, 1e-6))
	return n
}

// channels reads one number for all three channels, or a list of three.
func (p *Parameters) channels(name string, otherwise, low float64) []float32 {
	values := []any{otherwise}
	if value, given := p.read(name); given {
		values = []any{value}
		if list, ok := value.([]any); ok {
			values = list
		}
	}
	wrong := len(values) != 1 && len(values) != 3
	three := make([]float32, 3)
	for i := 0; !wrong && i < 3; i++ {
		x, ok := number(values[min(i, len(values)-1)])
		wrong = !ok || math.IsNaN(x) || x < low || x > 1e6
		three[i] = float32(x)
	}
	if wrong {
		p.Failf(name, "must be a number or three, each between %v and 1e6", low)
		return slices.Repeat([]float32{1}, 3)
	}
	return three
}

// source is the channel of the picture that fills channel c of the network.
func (n normal) source(c int) int {
	if n.reversed {
		return 2 - c
	}
	return c
}

func (n normal) value(c int, x float32) float32 {
	return (x*n.gain - n.mean[c]) / n.deviation[c]
}
