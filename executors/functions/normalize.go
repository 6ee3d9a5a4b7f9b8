package functions

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/wire"
)

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

// floats is a channel of the picture, row by row.
func (n normal) floats(image wire.Tensor, channel int) []float32 {
	area := int(image.Shape[1] * image.Shape[2])
	plane := make([]float32, area)
	if n.datatype == wire.Uint8 {
		for i, b := range image.Data[channel*area : (channel+1)*area] {
			plane[i] = float32(b)
		}
		return plane
	}
	for i := range plane {
		plane[i] = at(image.Data, channel*area+i)
	}
	return plane
}
