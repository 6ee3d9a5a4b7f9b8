package steps

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

// ramp is an image whose channel c holds 100c + 10y + x at the centre of pixel
// (x, y). Interpolation reproduces such a plane exactly away from the edges.
func ramp(channels, height, width int64) wire.Tensor {
	t := blank(channels, height, width)
	for i := range count(t.Shape) {
		x, y, c := int64(i)%width, int64(i)/width%height, int64(i)/width/height
		put(t.Data, i, float32(100*c+10*y+x))
	}
	return t
}

func boxes(values ...float32) wire.Tensor {
	return wire.FromFloat32(values, int64(len(values)/4), 4)
}

func TestCropTakesPixelsWhereTheyAre(t *testing.T) {
	i := load(t, "crop", params{"width": 2.0, "height": 3.0})
	answer := call(t, i, ramp(2, 8, 8), boxes(1, 2, 3, 5, 2, 2, 6, 8))
	require.Equal(t, []int64{2, 2, 3, 2}, answer[0].Shape)
	require.InDeltaSlice(t, []float32{
		21, 22, 31, 32, 41, 42, 121, 122, 131, 132, 141, 142, // pixels as they are
		27.5, 29.5, 47.5, 49.5, 67.5, 69.5, 127.5, 129.5, 147.5, 149.5, 167.5, 169.5, // halved
	}, floats(t, answer[0]), 1e-4)
}

func TestCropWithMarginAndBeyondTheEdge(t *testing.T) {
	i := load(t, "crop", params{"width": 2.0, "height": 2.0, "margin": 0.5})
	answer := call(t, i, ramp(1, 4, 4), boxes(1, 1, 3, 3))
	require.InDeltaSlice(t, []float32{5.5, 7.5, 25.5, 27.5}, floats(t, answer[0]), 1e-4, "1 pixel more on each side")
	answer = call(t, i, ramp(1, 4, 4), boxes(-9, -9, -8, -8, 90, 90, 91, 91))
	require.Equal(t, []float32{0, 0, 0, 0, 33, 33, 33, 33}, floats(t, answer[0]), "the edge continues")
}

func TestCropOfNothing(t *testing.T) {
	i := load(t, "crop", params{"width": 2.0, "height": 2.0, "max": 3.0})
	answer := call(t, i, ramp(3, 4, 4), boxes())
	require.Equal(t, []int64{0, 3, 2, 2}, answer[0].Shape)
	answer = call(t, i, blank(3, 0, 4), boxes())
	require.Empty(t, answer[0].Data)

	point := call(t, i, ramp(1, 4, 4), boxes(1.5, 2.5, 1.5, 2.5))
	require.Equal(t, []float32{21, 21, 21, 21}, floats(t, point[0]), "a box without area is one point")

	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	refuses(t, i, "4 boxes where max = 3", ramp(1, 4, 4), blank(4, 4))
	refuses(t, i, "has no pixels", blank(3, 0, 4), boxes(0, 0, 1, 1))
	refuses(t, i, "box 2 is [3 0 1 1]", ramp(1, 4, 4), boxes(0, 0, 1, 1, 3, 0, 1, 1))
	refuses(t, i, "box 1", ramp(1, 4, 4), boxes(nan, 0, 1, 1))
	refuses(t, i, "box 1", ramp(1, 4, 4), boxes(0, 0, inf, 1))
	refuses(t, i, "box 1", ramp(1, 4, 4), boxes(inf, 0, inf, 1))
}

// value is the image between its pixels, stated without a loop over taps: the sum over all
// pixels of their value times a tent of width one.
func value(image wire.Tensor, channel int, x, y float64) float64 {
	height, width := int(image.Shape[1]), int(image.Shape[2])
	x = min(max(x-0.5, 0), float64(width-1))
	y = min(max(y-0.5, 0), float64(height-1))
	sum := 0.0
	for py := range height {
		for px := range width {
			tent := max(0, 1-math.Abs(x-float64(px))) * max(0, 1-math.Abs(y-float64(py)))
			sum += tent * float64(at(image.Data, (channel*height+py)*width+px))
		}
	}
	return sum
}

func TestCropAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		side := rapid.Int64Range(1, 6)
		image := blank(side.Draw(rt, "channels"), side.Draw(rt, "height"), side.Draw(rt, "width"))
		for i := range count(image.Shape) {
			put(image.Data, i, float32(rapid.IntRange(-5, 5).Draw(rt, "pixel")))
		}
		coordinate, extent := rapid.Float64Range(-3, 8), rapid.Float64Range(0, 9)
		x, y := coordinate.Draw(rt, "x"), coordinate.Draw(rt, "y")
		w, h := extent.Draw(rt, "w"), extent.Draw(rt, "h")
		margin := rapid.Float64Range(0, 1).Draw(rt, "margin")
		outH, outW := int(side.Draw(rt, "crop height")), int(side.Draw(rt, "crop width"))

		one := boxes(float32(x), float32(y), float32(x+w), float32(y+h))
		got, err := pixels{wire.FP32, 1}.crop(image, one, margin, outH, outW, 1)
		require.NoError(rt, err)
		b := [4]float64{}
		for j := range b {
			b[j] = float64(at(one.Data, j))
		}
		bw, bh := b[2]-b[0], b[3]-b[1]
		n := 0
		for c := range int(image.Shape[0]) {
			for r := range outH {
				for k := range outW {
					sx := b[0] - margin*bw + (float64(k)+0.5)*bw*(1+2*margin)/float64(outW)
					sy := b[1] - margin*bh + (float64(r)+0.5)*bh*(1+2*margin)/float64(outH)
					require.InDelta(rt, value(image, c, sx, sy), at(got.Data, n), 1e-3)
					n++
				}
			}
		}
	})
}

func TestResize(t *testing.T) {
	half := load(t, "resize", params{"width": 2.0, "height": 2.0})
	require.InDeltaSlice(t, []float32{5.5, 7.5, 25.5, 27.5}, floats(t, call(t, half, ramp(1, 4, 4))[0]), 1e-4)
	same := load(t, "resize", params{"width": 5.0, "height": 4.0})
	require.Equal(t, floats(t, ramp(3, 4, 5)), floats(t, call(t, same, ramp(3, 4, 5))[0]))
	require.Equal(t, make([]float32, 8), floats(t, call(t, half, blank(2, 1, 1))[0]))
	refuses(t, half, "has no pixels", blank(3, 4, 0))
}

func TestPicturesOfBytes(t *testing.T) {
	bytes := wire.FromUint8([]uint8{0, 51, 102, 255}, 1, 2, 2)
	same := load(t, "resize", params{"width": 2.0, "height": 2.0, "datatype": "UINT8"})
	require.InDeltaSlice(t, []float32{0, 0.2, 0.4, 1}, floats(t, call(t, same, bytes)[0]), 1e-6)
	middle := load(t, "crop", params{"width": 1.0, "height": 1.0, "datatype": "UINT8", "gain": 2.0})
	require.InDeltaSlice(t, []float32{204, 510}, floats(t, call(t, middle, bytes, boxes(0, 0, 2, 2, 1, 1, 2, 2))[0]), 1e-3)
}

func BenchmarkCrop(b *testing.B) {
	i := load(b, "crop", params{"width": 32.0, "height": 32.0})
	image, two := ramp(3, 96, 96), boxes(10, 10, 50, 40, 60, 20, 90, 70)
	b.ReportAllocs()
	for b.Loop() {
		call(b, i, image, two)
	}
}
