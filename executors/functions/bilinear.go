package functions

import (
	"math"

	"github.com/harpagon/harpagon/wire"
)

// tap is where one row or column of a scaled image comes from: its value is
// that at first plus weight times the way from first to second.
type tap struct {
	first, second int
	weight        float32
}

// line spreads n samples evenly over low..high, each in the middle of its
// part, on a side of the image that has size pixels.
func line(low, high float64, n, size int) []tap {
	taps := make([]tap, n)
	last := float64(size - 1)
	for i := range taps {
		x := low + (float64(i)+0.5)*(high-low)/float64(n) - 0.5 // in units of pixel centres
		x = min(max(x, 0), last)
		first := math.Floor(x)
		taps[i] = tap{first: int(first), second: int(min(first+1, last)), weight: float32(x - first)}
	}
	return taps
}

// scale writes every channel of the image at the crossings of rows and columns.
func scale(image wire.Tensor, rows, columns []tap, out []byte) {
	height, width := int(image.Shape[1]), int(image.Shape[2])
	n := 0
	for channel := range int(image.Shape[0]) {
		plane := image.Data[4*channel*height*width : 4*(channel+1)*height*width]
		for _, r := range rows {
			upper, lower := plane[4*r.first*width:], plane[4*r.second*width:]
			for _, c := range columns {
				top := mix(at(upper, c.first), at(upper, c.second), c.weight)
				bottom := mix(at(lower, c.first), at(lower, c.second), c.weight)
				put(out, n, mix(top, bottom, r.weight))
				n++
			}
		}
	}
}

func mix(a, b, weight float32) float32 { return a + (b-a)*weight }
