// Package scene draws road scenes with vehicles, and reports what is on them.
//
// A scene is 96 by 96 pixels: a road with lane marks between verges with
// clutter, up to four vehicles of four kinds and six colours, seen from the
// side in either direction, that may hide each other in part. Size, proportions
// and hue vary from vehicle to vehicle; brightness, colour of the light, its
// gradient, shadows, blur and noise from scene to scene. The same seed draws
// the same scene.
package scene

import (
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/examples/canvas"
)

// Side of a scene in pixels.
const Side = 96

// Object is one vehicle of a scene and where it shows.
type Object struct {
	Kind    string     `json:"kind"`
	Colour  string     `json:"colour"`
	Box     [4]float32 `json:"box"`     // x0, y0, x1, y1 in pixels, of the whole vehicle within the scene
	Visible float64    `json:"visible"` // share of the vehicle that shows
}

// Scene is a picture and the truth about it.
type Scene struct {
	Pixels  []float32 // [3, Side, Side], red, green and blue planes, 0 to 1
	Objects []Object
}

// Draw draws the scene of a seed.
func Draw(seed uint64) Scene { return DrawWith(seed, nil) }

// DrawWith draws the scene of a seed, and whatever else the caller paints in front of it.
func DrawWith(seed uint64, front func(*canvas.Canvas)) Scene {
	rng := rand.New(rand.NewPCG(seed, 0x7aff1c))
	count := rng.IntN(5)
	c := canvas.New(Side)
	lanes := background(c, rng)
	vehicles := place(rng, lanes, count)
	whole := make([]int, len(vehicles))
	for i := range vehicles {
		c.Brush = int8(i + 1)
		alone := canvas.New(Side)
		alone.Brush = 1
		shadow(c, &vehicles[i])
		vehicles[i].paint(c)
		vehicles[i].paint(alone)
		whole[i] = alone.Covered(1)
	}
	if c.Brush = -1; front != nil {
		front(c)
	}
	s := Scene{Pixels: c.Planes()}
	for i := range vehicles {
		v := &vehicles[i]
		s.Objects = append(s.Objects, Object{
			Kind: Kinds()[v.kind], Colour: Colours()[v.colour], Box: v.box(),
			Visible: float64(c.Covered(int8(i+1))) / float64(max(whole[i], 1)),
		})
	}
	canvas.Light(s.Pixels, Side, rng)
	return s
}

func (v *vehicle) box() [4]float32 {
	clip := func(x float64) float32 { return float32(min(max(x, 0), Side)) }
	return [4]float32{clip(v.x), clip(v.ground - v.height), clip(v.x + v.length), clip(v.ground)}
}

// place puts vehicles on lanes. A new one may hide an earlier one in part, but
// their middles keep a distance.
func place(rng *rand.Rand, lanes []float64, count int) []vehicle {
	var all []vehicle
	for len(all) < count {
		v := drawVehicle(rng)
		placed := false
		for range 30 {
			v.x = rng.Float64() * (Side - v.length)
			v.ground = lanes[rng.IntN(len(lanes))] + 4*(rng.Float64()-0.5)
			if v.ground-v.height < 1 || v.ground > Side-1 {
				continue
			}
			if !slices.ContainsFunc(all, v.crowds) {
				placed = true
				break
			}
		}
		if !placed {
			break
		}
		all = append(all, v)
	}
	// Nearer vehicles, lower in the picture, hide farther ones.
	slices.SortFunc(all, func(a, b vehicle) int {
		if a.ground < b.ground {
			return -1
		}
		return 1
	})
	return all
}

// crowds is true of vehicles whose overlap would leave too little of one.
func (v *vehicle) crowds(o vehicle) bool {
	w := min(v.x+v.length, o.x+o.length) - max(v.x, o.x)
	h := min(v.ground, o.ground) - max(v.ground-v.height, o.ground-o.height)
	if w <= 0 || h <= 0 {
		return false
	}
	return w*h > 0.3*min(v.length*v.height, o.length*o.height)
}

// background paints verges, road, lane marks and clutter, and returns the
// heights at which vehicles stand.
func background(c *canvas.Canvas, rng *rand.Rand) []float64 {
	verge := []canvas.Colour{{0.25, 0.42, 0.2}, {0.5, 0.46, 0.36}, {0.42, 0.42, 0.44}, {0.75, 0.78, 0.82}}[rng.IntN(4)]
	road := 0.22 + 0.2*rng.Float64()
	c.Rect(0, 0, Side, Side, verge)
	top, bottom := 14+10*rng.Float64(), 78+12*rng.Float64()
	for range 3 + rng.IntN(6) {
		clutter(c, rng, top)
	}
	c.Rect(0, top, Side, bottom, canvas.Colour{road, road, road * 1.03})
	lanes := 3 + rng.IntN(2)
	var grounds []float64
	width := (bottom - top) / float64(lanes)
	mark := 0.6 + 0.35*rng.Float64()
	gap, phase := 8+6*rng.Float64(), 14*rng.Float64()
	for i := range lanes {
		y := top + float64(i)*width
		grounds = append(grounds, y+0.85*width)
		for x := -phase; x < Side && i > 0; x += 2 * gap {
			c.Rect(x, y-0.5, x+gap, y+0.5, canvas.Colour{mark, mark, mark * 0.95})
		}
	}
	for range rng.IntN(4) { // patches, manholes, oil
		shade := road * (0.7 + 0.6*rng.Float64())
		c.Ellipse(Side*rng.Float64(), top+(bottom-top)*rng.Float64(), 1+5*rng.Float64(), 0.8+2*rng.Float64(), canvas.Colour{shade, shade, shade})
	}
	return grounds
}

// clutter is a house, tree, sign or box beside the road.
func clutter(c *canvas.Canvas, rng *rand.Rand, horizon float64) {
	x, paint := Side*rng.Float64(), canvas.Colour{rng.Float64(), rng.Float64(), rng.Float64()}.Times(0.8)
	y := horizon * rng.Float64()
	if rng.IntN(3) == 0 {
		y = 82 + 12*rng.Float64()
	}
	switch rng.IntN(3) {
	case 0:
		w, h := 5+16*rng.Float64(), 4+10*rng.Float64()
		c.Rect(x, y-h/2, x+w, y+h/2, paint)
		for i := 0.0; i+2.5 < w; i += 4 {
			c.Rect(x+i+1, y-h/4, x+i+2.5, y, paint.Times(0.5))
		}
	case 1:
		r := 2 + 5*rng.Float64()
		c.Ellipse(x, y, r, r, canvas.Colour{0.12, 0.3 + 0.2*rng.Float64(), 0.1})
	case 2:
		c.Rect(x, y-6, x+1, y+6, canvas.Colour{0.3, 0.3, 0.3})
		c.Ellipse(x+0.5, y-6, 2.2, 2.2, paint)
	}
}

// shadow darkens the ground under a vehicle. It belongs to the background.
func shadow(c *canvas.Canvas, v *vehicle) {
	const side = Side * canvas.Fine
	for ix := range side {
		x := (float64(ix) + 0.5) / canvas.Fine
		if x < v.x-1 || x > v.x+v.length+1 {
			continue
		}
		for dy := -canvas.Fine; dy <= canvas.Fine; dy++ {
			if iy := int(v.ground*canvas.Fine) + dy; iy >= 0 && iy < side {
				c.Pixel[iy*side+ix] = c.Pixel[iy*side+ix].Times(0.6)
			}
		}
	}
}

// Image is the picture.
func (s Scene) Image() image.Image { return canvas.Image(s.Pixels, Side) }

// WritePNG writes the picture.
func (s Scene) WritePNG(w io.Writer) error { return png.Encode(w, s.Image()) }
