package scene

import (
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
)

// fine is the factor by which scenes are drawn larger than they come out.
const fine = 2

type colour [3]float64

func (c colour) times(f float64) colour { return colour{c[0] * f, c[1] * f, c[2] * f} }

// canvas holds linear colours and, for each point, which vehicle shows there.
type canvas struct {
	side  int
	pixel []colour
	owner []int8 // 0 is the background
	brush int8
}

func newCanvas(side int) *canvas {
	return &canvas{side: side, pixel: make([]colour, side*side), owner: make([]int8, side*side)}
}

// fill paints all points in the box x0..x1, y0..y1 (in scene pixels) for which
// inside holds.
func (c *canvas) fill(x0, y0, x1, y1 float64, paint colour, inside func(x, y float64) bool) {
	left, right := max(0, int(x0*fine)), min(c.side-1, int(math.Ceil(x1*fine)))
	top, bottom := max(0, int(y0*fine)), min(c.side-1, int(math.Ceil(y1*fine)))
	for iy := top; iy <= bottom; iy++ {
		for ix := left; ix <= right; ix++ {
			x, y := (float64(ix)+0.5)/fine, (float64(iy)+0.5)/fine
			if x < x0 || x > x1 || y < y0 || y > y1 || inside != nil && !inside(x, y) {
				continue
			}
			c.pixel[iy*c.side+ix] = paint
			c.owner[iy*c.side+ix] = c.brush
		}
	}
}

func (c *canvas) rect(x0, y0, x1, y1 float64, paint colour) { c.fill(x0, y0, x1, y1, paint, nil) }

func (c *canvas) ellipse(cx, cy, rx, ry float64, paint colour) {
	c.fill(cx-rx, cy-ry, cx+rx, cy+ry, paint, func(x, y float64) bool {
		dx, dy := (x-cx)/rx, (y-cy)/ry
		return dx*dx+dy*dy <= 1
	})
}

// trapezoid has its long side at the bottom.
func (c *canvas) trapezoid(x0, x1, top0, top1, y0, y1 float64, paint colour) {
	c.fill(min(x0, top0), y0, max(x1, top1), y1, paint, func(x, y float64) bool {
		f := (y - y0) / (y1 - y0)
		return x >= top0+(x0-top0)*f && x <= top1+(x1-top1)*f
	})
}

// shrink averages down to the scene's size: red, green, blue planes.
func (c *canvas) shrink() []float32 {
	side := c.side / fine
	out := make([]float32, 3*side*side)
	for y := range side {
		for x := range side {
			for k := range 3 {
				sum := 0.0
				for dy := range fine {
					for dx := range fine {
						sum += c.pixel[(y*fine+dy)*c.side+x*fine+dx][k]
					}
				}
				out[(k*side+y)*side+x] = float32(sum / (fine * fine))
			}
		}
	}
	return out
}

// Image turns planes of 0 to 1 into a picture.
func (s Scene) Image() image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, Side, Side))
	for y := range Side {
		for x := range Side {
			at := func(k int) uint8 { return uint8(s.Pixels[(k*Side+y)*Side+x]*255 + 0.5) }
			img.SetNRGBA(x, y, color.NRGBA{at(0), at(1), at(2), 255})
		}
	}
	return img
}

// WritePNG writes the picture.
func (s Scene) WritePNG(w io.Writer) error { return png.Encode(w, s.Image()) }

// Pixels reads a picture of any size into planes of 0 to 1: red, green, blue.
func Pixels(img image.Image) (pixels []float32, height, width int) {
	b := img.Bounds()
	height, width = b.Dy(), b.Dx()
	pixels = make([]float32, 3*height*width)
	for y := range height {
		for x := range width {
			r, g, bl, _ := img.At(b.Min.X+x, b.Min.Y+y).RGBA()
			for k, v := range [3]uint32{r, g, bl} {
				pixels[(k*height+y)*width+x] = float32(v) / 0xffff
			}
		}
	}
	return pixels, height, width
}
