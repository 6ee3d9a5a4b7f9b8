// Package applications draws what the networks of the five applications learn from, and are
// tried on: streets, faces, figures, clips and people at work. A seed draws the same picture
// every time.
package applications

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/examples/canvas"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/examples/training"
)

// FirstUnseen is the first seed of pictures that no network was trained on.
const FirstUnseen = 1_000_000

// side of all pictures, in pixels.
const side = training.Side

// Object is something in a picture.
type Object struct {
	Box    [4]float32 // x0, y0, x1, y1 in pixels
	Class  int
	Points []float32 // x and y in pixels of each
}

// random numbers of a seed's picture.
type random struct{ *rand.Rand }

func draws(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0xa991))} }

// between is a number from a to b.
func (r random) between(a, b float64) float64 { return a + (b-a)*r.Float64() }

// colour is any, as bright as the bounds say.
func (r random) colour(dark, bright float64) canvas.Colour {
	return canvas.Colour{r.between(dark, bright), r.between(dark, bright), r.between(dark, bright)}
}

// background is a canvas with a plain ground and some clutter.
func (r random) background(grey bool) *canvas.Canvas {
	c := canvas.New(side)
	paint := func() canvas.Colour {
		p := r.colour(0.1, 0.8)
		if grey {
			return canvas.Colour{p[0], p[0], p[0]}
		}
		return p
	}
	c.Rect(0, 0, side, side, paint())
	for range 3 + r.IntN(6) {
		x, y, w, h := r.between(0, side), r.between(0, side), r.between(2, 14), r.between(2, 14)
		if r.IntN(2) == 0 {
			c.Rect(x, y, x+w, y+h, paint())
		} else {
			c.Ellipse(x, y, w/2, h/2, paint())
		}
	}
	return c
}

// apart finds places for up to n boxes of w by h pixels that do not overlap.
func (r random) apart(n int, size func() (w, h float64)) (boxes [][4]float64) {
	for range 20 * n {
		if len(boxes) == n {
			break
		}
		w, h := size()
		x, y := r.between(1, side-1-w), r.between(1, side-1-h)
		free := true
		for _, b := range boxes {
			free = free && (x > b[2] || b[0] > x+w || y > b[3] || b[1] > y+h)
		}
		if free {
			boxes = append(boxes, [4]float64{x, y, x + w, y + h})
		}
	}
	return boxes
}

func narrow(b [4]float64) [4]float32 {
	return [4]float32{float32(b[0]), float32(b[1]), float32(b[2]), float32(b[3])}
}

// Walkers are the classes of people on a street.
func Walkers() []string { return []string{"walker", "umbrella", "pushchair"} }

// Street is a road with vehicles, as in the traffic example, and up to three people in front.
func Street(seed uint64) (pixels []float32, vehicles, people []Object) {
	r := draws(seed)
	s := scene.DrawWith(seed, func(c *canvas.Canvas) {
		for _, b := range r.apart(r.IntN(4), func() (float64, float64) { return r.between(9, 12), r.between(17, 22) }) {
			class := r.IntN(len(Walkers()))
			r.walker(c, b, class)
			people = append(people, Object{Box: narrow(b), Class: class})
		}
	})
	for _, o := range s.Objects {
		if o.Visible >= 0.4 {
			vehicles = append(vehicles, Object{Box: o.Box, Class: slices.Index(scene.Kinds(), o.Kind)})
		}
	}
	return s.Pixels, vehicles, people
}

// walker paints a person from the front that fills the box.
func (r random) walker(c *canvas.Canvas, b [4]float64, class int) {
	coat, legs, skin := r.colour(0, 0.9), r.colour(0, 0.4), canvas.Colour{0.85, 0.65, 0.5}.Times(r.between(0.4, 1.1))
	w, h, x := b[2]-b[0], b[3]-b[1], (b[0]+b[2])/2
	y := func(f float64) float64 { return b[1] + f*h }
	step := r.between(0.05, 0.2) * w
	if class == 2 {
		x = b[0] + 0.28*w
	}
	c.Line(x, y(0.6), x-step, y(0.97), 1.8, legs)
	c.Line(x, y(0.6), x+step, y(0.97), 1.8, legs)
	c.Ellipse(x, y(0.47), 0.2*w, 0.19*h, coat)
	c.Ellipse(x, y(0.2), 0.15*w, 0.1*h, skin)
	switch class {
	case 1:
		canopy := r.colour(0.2, 1)
		c.Line(x+0.2*w, y(0.1), x+0.2*w, y(0.5), 0.8, canvas.Colour{0.2, 0.2, 0.2})
		c.Fill(b[0], y(0), b[2], y(0.17), canopy, func(px, py float64) bool {
			return math.Hypot((px-x)/(w/2), (py-y(0.17))/(0.17*h)) <= 1
		})
	case 2:
		cart := r.colour(0.1, 1)
		c.Line(x, y(0.42), b[0]+0.6*w, y(0.6), 1, legs)
		c.Rect(b[0]+0.55*w, y(0.55), b[2], y(0.84), cart)
		for _, f := range []float64{0.63, 0.92} {
			c.Ellipse(b[0]+f*w, y(0.92), 1.3, 1.3, canvas.Colour{0.05, 0.05, 0.05})
		}
	}
}

// FacePoints are the points of a face, in order.
func FacePoints() []string {
	return []string{"left eye", "right eye", "nose", "left corner of the mouth", "right corner of the mouth"}
}

// Portraits is a picture with up to three faces, tilted and turned, among balls that are none.
func Portraits(seed uint64) (pixels []float32, faces []Object) {
	r := draws(seed)
	c := r.background(false)
	for _, b := range r.apart(1+r.IntN(4), func() (float64, float64) { w := r.between(18, 30); return w, 1.15 * w }) {
		if r.IntN(4) == 0 {
			c.Ellipse((b[0]+b[2])/2, (b[1]+b[3])/2, (b[2]-b[0])/2, (b[3]-b[1])/2, r.colour(0.2, 0.9))
		} else if len(faces) < 3 {
			faces = append(faces, Object{Box: narrow(b), Points: r.face(c, b)})
		}
	}
	pixels = c.Planes()
	canvas.Light(pixels, side, r.Rand)
	return pixels, faces
}

// face paints one that fills the box, and gives its points.
func (r random) face(c *canvas.Canvas, b [4]float64) (points []float32) {
	skin, hair := canvas.Colour{0.9, 0.7, 0.55}.Times(r.between(0.35, 1.1)), r.colour(0, 0.4)
	x, y, rx, ry := (b[0]+b[2])/2, (b[1]+b[3])/2, (b[2]-b[0])/2, (b[3]-b[1])/2
	tilt, turn, nod := r.between(-0.35, 0.35), r.between(-0.25, 0.25), r.between(-0.1, 0.15)
	at := func(u, v float64) (float64, float64) {
		u, v = u+turn, v+nod
		return x + rx*(u*math.Cos(tilt)-v*math.Sin(tilt)), y + ry*(u*math.Sin(tilt)+v*math.Cos(tilt))
	}
	c.Ellipse(x, y, rx, ry, hair)
	c.Ellipse(x, y+0.12*ry, 0.88*rx, 0.87*ry, skin)
	place := func(u, v float64) (float64, float64) {
		px, py := at(u, v)
		points = append(points, float32(px), float32(py))
		return px, py
	}
	for _, u := range []float64{-0.36, 0.36} {
		px, py := place(u, -0.15)
		c.Ellipse(px, py, 0.16*rx, 0.11*ry, canvas.Colour{0.95, 0.95, 0.95})
		c.Ellipse(px, py, 0.09*rx, 0.09*ry, canvas.Colour{0.1, 0.1, 0.15})
	}
	tx, ty := at(0, -0.1)
	nx, ny := place(0, 0.2)
	c.Line(tx, ty, nx, ny, 0.1*rx, skin.Times(0.75))
	ax, ay := place(-0.28, 0.52)
	bx, by := place(0.28, 0.52)
	c.Line(ax, ay, bx, by, 0.13*ry, canvas.Colour{0.65, 0.15, 0.15})
	return points
}

// margin is the share of a box's size that its crop shows on each side, too.
const margin = 0.05

// Within turns points of a picture into shares of the crop of a box: 0 at its left and upper edge,
// 1 at its right and lower.
func Within(box [4]float32, points []float32) []float32 {
	shares := make([]float32, len(points))
	for i, v := range points {
		from, size := box[i%2], box[2+i%2]-box[i%2]
		shares[i] = (v - from + margin*size) / (size * (1 + 2*margin))
	}
	return shares
}

// Cell is the cell of a map in which a point lies, by rows, or -1 outside the picture.
func Cell(point []float32) int {
	column, row := int(math.Floor(float64(point[0])/training.Stride)), int(math.Floor(float64(point[1])/training.Stride))
	if min(column, row) < 0 || max(column, row) >= training.Cells {
		return -1
	}
	return row*training.Cells + column
}
