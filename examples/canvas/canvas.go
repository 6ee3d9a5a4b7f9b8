// Package canvas draws the pictures that the examples' networks learn from.
//
// Pictures are drawn at twice the size and averaged down, so that edges are
// soft as a camera's are.
package canvas

import (
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
)

// Fine is the factor by which pictures are drawn larger than they come out.
const Fine = 2

// Colour is red, green and blue, 0 to 1.
type Colour [3]float64

// Times is the colour, brighter by a factor.
func (c Colour) Times(f float64) Colour { return Colour{c[0] * f, c[1] * f, c[2] * f} }

// Canvas holds linear colours and, for each point, which brush painted it last.
type Canvas struct {
	Side  int      // of the picture in pixels
	Pixel []Colour // [Fine·Side, Fine·Side], by rows
	Brush int8     // 0 is the background's
	owner []int8
}

// New is a black canvas for a picture of side by side pixels.
func New(side int) *Canvas {
	n := Fine * Fine * side * side
	return &Canvas{Side: side, Pixel: make([]Colour, n), owner: make([]int8, n)}
}

// Covered is how many points the brush painted last.
func (c *Canvas) Covered(brush int8) int {
	n := 0
	for _, o := range c.owner {
		if o == brush {
			n++
		}
	}
	return n
}

// Fill paints all points in the box x0..x1, y0..y1 (in pixels of the picture)
// for which inside holds.
func (c *Canvas) Fill(x0, y0, x1, y1 float64, paint Colour, inside func(x, y float64) bool) {
	side := Fine * c.Side
	left, right := max(0, int(x0*Fine)), min(side-1, int(math.Ceil(x1*Fine)))
	top, bottom := max(0, int(y0*Fine)), min(side-1, int(math.Ceil(y1*Fine)))
	for iy := top; iy <= bottom; iy++ {
		for ix := left; ix <= right; ix++ {
			x, y := (float64(ix)+0.5)/Fine, (float64(iy)+0.5)/Fine
			if x < x0 || x > x1 || y < y0 || y > y1 || inside != nil && !inside(x, y) {
				continue
			}
			c.Pixel[iy*side+ix] = paint
			c.owner[iy*side+ix] = c.Brush
		}
	}
}

// Rect paints a rectangle.
func (c *Canvas) Rect(x0, y0, x1, y1 float64, paint Colour) { c.Fill(x0, y0, x1, y1, paint, nil) }

// Ellipse paints one of the half axes rx and ry.
func (c *Canvas) Ellipse(cx, cy, rx, ry float64, paint Colour) {
	c.Fill(cx-rx, cy-ry, cx+rx, cy+ry, paint, func(x, y float64) bool {
		dx, dy := (x-cx)/rx, (y-cy)/ry
		return dx*dx+dy*dy <= 1
	})
}

// Trapezoid has its long side at the bottom.
func (c *Canvas) Trapezoid(x0, x1, top0, top1, y0, y1 float64, paint Colour) {
	c.Fill(min(x0, top0), y0, max(x1, top1), y1, paint, func(x, y float64) bool {
		f := (y - y0) / (y1 - y0)
		return x >= top0+(x0-top0)*f && x <= top1+(x1-top1)*f
	})
}

// Line paints a stroke with round ends.
func (c *Canvas) Line(x0, y0, x1, y1, width float64, paint Colour) {
	r, dx, dy := width/2, x1-x0, y1-y0
	c.Fill(min(x0, x1)-r, min(y0, y1)-r, max(x0, x1)+r, max(y0, y1)+r, paint, func(x, y float64) bool {
		f := min(1, max(0, ((x-x0)*dx+(y-y0)*dy)/max(dx*dx+dy*dy, 1e-9)))
		return math.Hypot(x-x0-f*dx, y-y0-f*dy) <= r
	})
}

// Planes averages down to the picture's size: red, green and blue, 0 to 1.
func (c *Canvas) Planes() []float32 {
	return slices.Concat(c.Plane(0), c.Plane(1), c.Plane(2))
}

// Plane is one of them.
func (c *Canvas) Plane(k int) []float32 {
	side := c.Side
	out := make([]float32, side*side)
	for y := range side {
		for x := range side {
			sum := 0.0
			for dy := range Fine {
				for dx := range Fine {
					sum += c.Pixel[(y*Fine+dy)*Fine*side+x*Fine+dx][k]
				}
			}
			out[y*side+x] = float32(sum / (Fine * Fine))
		}
	}
	return out
}

// Image turns planes of 0 to 1 into a picture.
func Image(pixels []float32, side int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			at := func(k int) uint8 { return uint8(pixels[(k*side+y)*side+x]*255 + 0.5) }
			img.SetNRGBA(x, y, color.NRGBA{at(0), at(1), at(2), 255})
		}
	}
	return img
}

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

// Light applies brightness, colour of the light, gradient, a band of shade,
// blur and noise to planes.
func Light(pixels []float32, side int, rng *rand.Rand) {
	bright := 0.5 + 0.65*rng.Float64()
	tint := Colour{1 + 0.16*(rng.Float64()-0.5), 1, 1 + 0.16*(rng.Float64()-0.5)}
	gx, gy := 0.4*(rng.Float64()-0.5), 0.4*(rng.Float64()-0.5)
	band, slope, depth := float64(side)*rng.Float64(), 2*(rng.Float64()-0.5), 1.0
	if rng.IntN(3) == 0 {
		depth = 0.55 + 0.3*rng.Float64()
	}
	noise := 0.01 + 0.04*rng.Float64()
	if rng.IntN(3) == 0 {
		blur(pixels, side)
	}
	for y := range side {
		for x := range side {
			f := bright * (1 + gx*(float64(x)/float64(side)-0.5) + gy*(float64(y)/float64(side)-0.5))
			if math.Abs(float64(x)-band-slope*float64(y)) < 9 {
				f *= depth
			}
			for k := range 3 {
				p := &pixels[(k*side+y)*side+x]
				*p = float32(min(1, max(0, float64(*p)*f*tint[k]+noise*rng.NormFloat64())))
			}
		}
	}
}

// blur averages each pixel with its neighbours.
func blur(pixels []float32, side int) {
	from := slices.Clone(pixels)
	for k := range 3 {
		for y := 1; y < side-1; y++ {
			for x := 1; x < side-1; x++ {
				i := (k*side+y)*side + x
				pixels[i] = 0.4*from[i] + 0.15*(from[i-1]+from[i+1]+from[i-side]+from[i+side])
			}
		}
	}
}
