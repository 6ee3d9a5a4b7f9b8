package scene

import (
	"math/rand/v2"

	"github.com/harpagon/harpagon/examples/canvas"
)

// Kinds and Colours are the classes, in the order of the networks' outputs.
func Kinds() []string { return []string{"car", "truck", "bus", "motorcycle"} }

// Colours that a vehicle's body may have.
func Colours() []string { return []string{"red", "green", "blue", "yellow", "white", "black"} }

var paints = []canvas.Colour{{0.78, 0.10, 0.10}, {0.12, 0.55, 0.18}, {0.12, 0.22, 0.75}, {0.88, 0.76, 0.12}, {0.88, 0.88, 0.86}, {0.08, 0.08, 0.09}}

// vehicle is one to be drawn: position of its left end and of the ground, and
// size.
type vehicle struct {
	kind, colour        int
	x, ground           float64
	length, height      float64
	left                bool // faces left
	body, glass, rubber canvas.Colour
	detail              [4]float64 // 0..1, varies proportions
}

// drawVehicle picks everything but the place.
func drawVehicle(rng *rand.Rand) vehicle {
	v := vehicle{kind: rng.IntN(len(Kinds())), colour: rng.IntN(len(paints)), left: rng.IntN(2) == 0}
	for i := range v.detail {
		v.detail[i] = rng.Float64()
	}
	size := 0.85 + 0.4*rng.Float64()
	switch v.kind {
	case 0:
		v.length, v.height = size*(21+4*v.detail[0]), size*(9+1.5*v.detail[1])
	case 1:
		v.length, v.height = size*(28+5*v.detail[0]), size*(14+2.5*v.detail[1])
	case 2:
		v.length, v.height = size*(29+5*v.detail[0]), size*(13+2*v.detail[1])
	case 3:
		v.length, v.height = size*(13+2.5*v.detail[0]), size*(12+1.5*v.detail[1])
	}
	base := paints[v.colour]
	shade := 0.85 + 0.3*rng.Float64()
	for k := range v.body {
		v.body[k] = min(1, max(0.02, base[k]*shade+0.05*(rng.Float64()-0.5)))
	}
	g := 0.25 + 0.35*rng.Float64()
	v.glass = canvas.Colour{g * 0.8, g * 0.95, g * 1.1}
	r := 0.04 + 0.06*rng.Float64()
	v.rubber = canvas.Colour{r, r, r}
	return v
}

// at turns a place along the vehicle, 0 its rear and 1 its front, into x.
func (v *vehicle) at(f float64) float64 {
	if v.left {
		f = 1 - f
	}
	return v.x + f*v.length
}

// part is a rectangle between two places along the vehicle and two heights
// above ground, as shares of its size.
func (v *vehicle) part(c *canvas.Canvas, from, to, low, high float64, paint canvas.Colour) {
	a, b := v.at(from), v.at(to)
	c.Rect(min(a, b), v.ground-high*v.height, max(a, b), v.ground-low*v.height, paint)
}

func (v *vehicle) wheel(c *canvas.Canvas, f, radius float64) {
	c.Ellipse(v.at(f), v.ground-radius, radius, radius, v.rubber)
	c.Ellipse(v.at(f), v.ground-radius, radius*0.45, radius*0.45, canvas.Colour{0.5, 0.5, 0.52})
}

func (v *vehicle) paint(c *canvas.Canvas) {
	switch v.kind {
	case 0:
		v.car(c)
	case 1:
		v.truck(c)
	case 2:
		v.bus(c)
	case 3:
		v.motorcycle(c)
	}
}

func (v *vehicle) car(c *canvas.Canvas) {
	v.part(c, 0, 1, 0.15, 0.58, v.body)
	rear, front := 0.12+0.12*v.detail[2], 0.72+0.1*v.detail[3]
	cabin := func(inset, low, high float64, paint canvas.Colour) {
		a, b, ta, tb := v.at(rear+inset), v.at(front-inset), v.at(rear+0.12+inset), v.at(front-0.16-inset)
		c.Trapezoid(min(a, b), max(a, b), min(ta, tb), max(ta, tb), v.ground-high*v.height, v.ground-low*v.height, paint)
	}
	cabin(0, 0.5, 1, v.body)
	cabin(0.045, 0.6, 0.9, v.glass)
	v.part(c, 0.45, 0.49, 0.55, 0.92, v.body)
	v.part(c, 0.96, 1, 0.38, 0.5, canvas.Colour{0.9, 0.88, 0.6})
	r := v.height * 0.21
	v.wheel(c, 0.2, r)
	v.wheel(c, 0.8, r)
}

func (v *vehicle) truck(c *canvas.Canvas) {
	cargo := v.body.Times(0.92)
	if v.detail[2] < 0.3 { // an open load
		v.part(c, 0, 0.68, 0.2, 0.5+0.2*v.detail[3], cargo)
		v.part(c, 0.05, 0.63, 0.45, 0.62, canvas.Colour{0.42, 0.32, 0.2})
	} else {
		v.part(c, 0, 0.68, 0.2, 1, cargo)
		v.part(c, 0.03, 0.65, 0.56, 0.6, cargo.Times(0.8))
	}
	v.part(c, 0.68, 0.74, 0.2, 0.3, v.rubber)
	v.part(c, 0.74, 1, 0.16, 0.74, v.body)
	v.part(c, 0.86, 0.98, 0.46, 0.68, v.glass)
	r := v.height * 0.155
	v.wheel(c, 0.12, r)
	v.wheel(c, 0.3, r)
	v.wheel(c, 0.86, r)
}

func (v *vehicle) bus(c *canvas.Canvas) {
	v.part(c, 0, 1, 0.14, 1, v.body)
	windows := 5 + int(2*v.detail[2])
	for i := range windows {
		from := 0.04 + 0.92*float64(i)/float64(windows)
		v.part(c, from, from+0.74*0.92/float64(windows), 0.52, 0.84, v.glass)
	}
	if v.detail[3] < 0.5 {
		v.part(c, 0, 1, 0.34, 0.4, v.body.Times(0.7))
	}
	r := v.height * 0.16
	v.wheel(c, 0.2, r)
	v.wheel(c, 0.8, r)
}

func (v *vehicle) motorcycle(c *canvas.Canvas) {
	r := v.height * 0.23
	v.wheel(c, 0.2, r)
	v.wheel(c, 0.8, r)
	v.part(c, 0.2, 0.78, 0.28, 0.5, v.body)
	v.part(c, 0.55, 0.8, 0.44, 0.6, v.body)
	lean := 0.4 + 0.15*v.detail[2]
	c.Ellipse(v.at(lean), v.ground-0.68*v.height, v.length*0.14, v.height*0.2, v.body.Times(0.85))
	c.Ellipse(v.at(lean+0.08), v.ground-0.9*v.height, v.length*0.09, v.height*0.1, canvas.Colour{0.15, 0.14, 0.15})
}
