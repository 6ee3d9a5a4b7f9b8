package training

import (
	"math"
	"math/rand/v2"
)

// What the detectors of the examples see and give: pictures of Side by Side pixels, and for every
// cell of Stride by Stride pixels a score and a box, as executors/steps reads them.
const (
	Side   = 96
	Stride = 8
	Cells  = Side / Stride
)

// Trunk is the layers of a detector without the last, of 32 channels.
func Trunk() []Layer {
	return []Layer{Conv(3, 12, 2), Conv(12, 24, 2), Conv(24, 32, 2), Conv(32, 32, 1), Conv(32, 32, 1)}
}

// NewDetector draws one with so many maps.
func NewDetector(name string, maps int, rng *rand.Rand) *Network {
	n := New(name, []int{3, Side, Side}, append(Trunk(), Point(32, 5*maps)), rng)
	for i := range maps {
		n.biases[len(n.biases)-1][5*i] = -3 // few cells hold something
	}
	return n
}

// TrainDetector trains one on pictures: draw gives the i-th of the pixels [3, Side, Side] and, for
// every map, the boxes x0, y0, x1, y1 of what is there.
func (n *Network) TrainDetector(steps int, draw func(i int) (pixels []float32, boxes [][][4]float32)) {
	const batch, plane = 16, Cells * Cells
	n.Train(batch, steps, 2e-3, Regression, func(step int, l *Lesson) {
		clear(l.Targets)
		clear(l.Masks[0])
		clear(l.Masks[1])
		for i := range batch {
			pixels, maps := draw(step*batch + i)
			copy(l.X[i*len(pixels):], pixels)
			for m, boxes := range maps {
				at := func(channel, cell int) int { return ((i*len(maps)+m)*5+channel)*plane + cell }
				for c := range plane {
					l.Masks[0][at(0, c)] = 1.0 / batch
				}
				for _, b := range boxes {
					w, h := float64(b[2]-b[0]), float64(b[3]-b[1])
					cx, cy := float64(b[0]+b[2])/2/Stride, float64(b[1]+b[3])/2/Stride
					column, row := min(int(cx), Cells-1), min(int(cy), Cells-1)
					c := row*Cells + column
					l.Targets[at(0, c)] = 1
					l.Masks[0][at(0, c)] = 4.0 / batch
					for k, v := range [4]float64{cx - float64(column) - 0.5, cy - float64(row) - 0.5, math.Log(w / Stride), math.Log(h / Stride)} {
						l.Targets[at(k+1, c)] = float32(v)
						l.Masks[1][at(k+1, c)] = 6.0 / batch
					}
				}
			}
		}
	})
}

// Jitter moves a box as much as a detector errs.
func Jitter(b [4]float32, rng *rand.Rand) [4]float32 {
	w, h := b[2]-b[0], b[3]-b[1]
	for i := range b {
		size := w
		if i%2 == 1 {
			size = h
		}
		b[i] += float32(rng.NormFloat64()) * 0.08 * size
	}
	if b[2]-b[0] < 3 || b[3]-b[1] < 3 {
		b[2], b[3] = b[0]+3, b[1]+3
	}
	return b
}

// Crop is the side of the pictures that classifiers see.
const Crop = 24

// Look is the layers of a network that looks at a crop, and ends in numbers.
func Look(numbers int) []Layer {
	return []Layer{Conv(3, 16, 2), Conv(16, 32, 2), Conv(32, 32, 1), Dense(32*(Crop/4)*(Crop/4), numbers)}
}
