package applications

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/examples/canvas"
)

// Joints are the parts of a body, in order; right and left are those of the picture.
func Joints() []string {
	return []string{"head", "neck", "left shoulder", "left elbow", "left wrist", "left hip", "left knee", "left ankle",
		"right shoulder", "right elbow", "right wrist", "right hip", "right knee", "right ankle"}
}

// Poses are the classes of figures.
func Poses() []string {
	return []string{"standing", "arms up", "arms out", "waving", "hands on hips", "squatting", "kicking", "star jump"}
}

// bends are the angles of a pose, outward from straight down: upper arm, forearm, thigh and shin
// of one side, then of the other.
var bends = [][8]float64{
	{0.15, 0.1, 0.08, 0, 0.15, 0.1, 0.08, 0},
	{2.8, 3, 0.08, 0, 2.8, 3, 0.08, 0},
	{1.57, 1.57, 0.08, 0, 1.57, 1.57, 0.08, 0},
	{2.2, 3, 0.08, 0, 0.15, 0.1, 0.08, 0},
	{0.9, -0.9, 0.15, 0.1, 0.9, -0.9, 0.15, 0.1},
	{0.6, 0.3, 1.1, -0.4, 0.6, 0.3, 1.1, -0.4},
	{0.9, 0.9, 1.3, 1.3, 0.9, 0.9, 0.05, 0},
	{2.3, 2.4, 0.6, 0.6, 2.3, 2.4, 0.6, 0.6},
}

// Figure is a picture of a person in a pose.
func Figure(seed uint64) (pixels []float32, person Object) {
	r := draws(seed)
	c := r.background(false)
	person.Class = r.IntN(len(Poses()))
	person.Points = r.figure(c, bends[person.Class])
	pixels = c.Planes()
	canvas.Light(pixels, side, r.Rand)
	return pixels, person
}

// figure paints one, either way round, and gives its joints.
func (r random) figure(c *canvas.Canvas, bend [8]float64) (points []float32) {
	h, x, lean := r.between(46, 58), r.between(34, 62), r.between(-0.12, 0.12)
	y := r.between(0.55*h, side-2-0.48*h)
	shirt, trousers, skin := r.colour(0.1, 0.9), r.colour(0, 0.6), canvas.Colour{0.9, 0.7, 0.55}.Times(r.between(0.35, 1.1))
	width := r.between(0.06, 0.08) * h
	at := func(u, v float64) [2]float64 {
		return [2]float64{x + h*(u*math.Cos(lean)-v*math.Sin(lean)), y + h*(u*math.Sin(lean)+v*math.Cos(lean))}
	}
	line := func(a, b [2]float64, paint canvas.Colour) { c.Line(a[0], a[1], b[0], b[1], width, paint) }
	joints := [][2]float64{at(0, -0.42), at(0, -0.3)}
	first := 4 * r.IntN(2)
	for i, sign := range []float64{-1, 1} {
		angles := bend[(first+4*i)%8:][:4]
		limb := func(u, v, long float64, angles []float64, paint canvas.Colour) [][2]float64 {
			from := [2]float64{u * sign, v}
			list := [][2]float64{at(from[0], from[1])}
			for _, angle := range angles {
				angle += r.between(-0.12, 0.12)
				from = [2]float64{from[0] + sign*long*math.Sin(angle), from[1] + long*math.Cos(angle)}
				to := at(from[0], from[1])
				line(list[len(list)-1], to, paint)
				list = append(list, to)
			}
			return list
		}
		leg := limb(0.08, 0, 0.22, angles[2:], trousers)
		arm := limb(0.12, -0.28, 0.16, angles[:2], shirt)
		c.Ellipse(arm[2][0], arm[2][1], width/2, width/2, skin)
		joints = slices.Concat(joints, arm, leg)
	}
	for _, u := range []float64{-0.08, -0.03, 0.03, 0.08} {
		line(at(u, 0), at(u*1.3, -0.28), shirt)
	}
	line(joints[0], joints[1], skin)
	c.Ellipse(joints[0][0], joints[0][1], 0.075*h, 0.09*h, skin)
	for _, j := range joints {
		points = append(points, float32(j[0]), float32(j[1]))
	}
	return points
}

// Words are what captions are made of: four of these, of light, size, shape and movement.
func Words() []string {
	return []string{"dark", "bright", "small", "large", "circle", "square", "triangle", "left", "right", "up", "down", "still"}
}

// Sentence is how many words a caption has.
const Sentence = 4

// Clip is three grey frames [3, side, side], one after the other, of a shape that moves or not,
// and the words that tell of it.
func Clip(seed uint64) (pixels []float32, words [Sentence]int) {
	r := draws(seed)
	words = [Sentence]int{r.IntN(2), 2 + r.IntN(2), 4 + r.IntN(3), 7 + r.IntN(5)}
	grey := func(a, b float64) canvas.Colour { v := r.between(a, b); return canvas.Colour{v, v, v} }
	paint, ground, marks := grey(0.05, 0.2), grey(0.42, 0.58), grey(0.3, 0.7)
	if words[0] == 1 {
		paint = grey(0.8, 0.95)
	}
	size, step := r.between(5, 8), r.between(4, 8)
	if words[1] == 3 {
		size = r.between(12, 16)
	}
	dx := [5]float64{-step, step, 0, 0, 0}[words[3]-7]
	dy := [5]float64{0, 0, -step, step, 0}[words[3]-7]
	x, y := r.between(26, side-26), r.between(26, side-26)
	var posts [4]float64
	for i := range posts {
		posts[i] = r.between(0, side)
	}
	for k := range 3 {
		c := canvas.New(side)
		c.Rect(0, 0, side, side, ground)
		c.Line(posts[0], posts[1], posts[2], posts[3], 2, marks)
		cx, cy := x+float64(k-1)*dx, y+float64(k-1)*dy
		switch words[2] {
		case 4:
			c.Ellipse(cx, cy, size, size, paint)
		case 5:
			c.Rect(cx-0.9*size, cy-0.9*size, cx+0.9*size, cy+0.9*size, paint)
		case 6:
			c.Trapezoid(cx-1.2*size, cx+1.2*size, cx, cx, cy-size, cy+size, paint)
		}
		pixels = append(pixels, c.Plane(0)...)
	}
	canvas.Light(pixels, side, r.Rand)
	return pixels, words
}

// Roles and Motions are what people at work are and do, Activities what both make. A person's
// class is the role times the number of motions, plus the motion.
func Roles() []string { return []string{"guard", "worker", "visitor"} }

// Motions of a person in three frames.
func Motions() []string { return []string{"stands", "walks", "runs", "waves"} }

// Activities of people.
func Activities() []string {
	return []string{"watching", "patrolling", "alarm", "calling", "resting", "working", "waiting", "visiting", "greeting"}
}

// Activity is the number of what a person of a class does.
func Activity(class int) int { return [12]int{0, 1, 2, 3, 4, 5, 2, 3, 6, 7, 2, 8}[class] }

// Site is three grey frames [3, side, side], one after the other, of up to three people.
func Site(seed uint64) (pixels []float32, people []Object) {
	r := draws(seed)
	ground, frames := r.background(true), [3]*canvas.Canvas{}
	for k := range frames {
		frames[k] = canvas.New(side)
		copy(frames[k].Pixel, ground.Pixel)
	}
	for _, b := range r.apart(1+r.IntN(3), func() (float64, float64) { h := r.between(22, 27); return 0.85 * h, h }) {
		o := Object{Box: narrow(b), Class: r.IntN(len(Roles()) * len(Motions()))}
		r.worker(frames, b, o.Class/len(Motions()), o.Class%len(Motions()))
		people = append(people, o)
	}
	for _, c := range frames {
		pixels = append(pixels, c.Plane(0)...)
	}
	canvas.Light(pixels, side, r.Rand)
	return pixels, people
}

// worker paints a person that moves in the middle of the box.
func (r random) worker(frames [3]*canvas.Canvas, b [4]float64, role, motion int) {
	grey := func(a, b float64) canvas.Colour { v := r.between(a, b); return canvas.Colour{v, v, v} }
	body, legs, skin, black := grey(0.02, 0.15), grey(0, 0.25), grey(0.55, 0.8), canvas.Colour{0.03, 0.03, 0.03}
	switch role {
	case 1:
		body = grey(0.85, 1)
	case 2:
		body = grey(0.4, 0.6)
	}
	h, way := b[3]-b[1], float64(1-2*r.IntN(2))
	step := way * [4]float64{0, 0.08, 0.2, 0}[motion] * h
	swing := [4]float64{0, 0.09, 0.17, 0}[motion] * h
	for k, c := range frames {
		x := (b[0]+b[2])/2 + float64(k-1)*step
		y := func(f float64) float64 { return b[1] + f*h }
		s := swing * [3]float64{1, 0.3, 1}[k]
		c.Line(x-0.04*h, y(0.6), x-0.05*h-s, y(0.96), 0.08*h, legs)
		c.Line(x+0.04*h, y(0.6), x+0.05*h+s, y(0.96), 0.08*h, legs)
		c.Rect(x-0.13*h, y(0.3), x+0.13*h, y(0.65), body)
		c.Ellipse(x, y(0.2), 0.09*h, 0.11*h, skin)
		hand := 0.0
		if motion == 3 {
			hand = [3]float64{-0.12, 0.14, -0.12}[k] * h
			c.Line(x+way*0.13*h, y(0.34), x+way*0.25*h+hand, y(0.08), 0.08*h, body)
		} else {
			c.Line(x+way*0.15*h, y(0.34), x+way*0.17*h+s/2, y(0.6), 0.07*h, body)
		}
		switch role {
		case 0:
			c.Rect(x-0.13*h, y(0.1), x+0.13*h, y(0.15), black)
			c.Rect(x-0.08*h, y(0.04), x+0.08*h, y(0.12), black)
		case 1:
			c.Ellipse(x, y(0.12), 0.11*h, 0.08*h, body)
			c.Rect(x-0.13*h, y(0.45), x+0.13*h, y(0.51), black)
		case 2:
			c.Rect(x-way*0.3*h, y(0.5), x-way*0.14*h, y(0.66), black)
		}
	}
}
