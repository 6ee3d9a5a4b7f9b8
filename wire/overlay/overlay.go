// Package overlay draws on the frames of streams what was found on them, for people: boxes, and what is
// written beside each. Which tensors these are is declared (pipelines.Overlay). It has no state, and takes
// tensors as they come from strangers: what cannot be drawn is an error.
package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png" // pictures of BYTES may be PNG
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

const (
	least     = 320  // pixels of the longer side: a smaller frame is magnified, so that letters fit
	mostBoxes = 1000 // that are drawn
	mostWord  = 24   // letters of one label
	thick     = 2    // pixels of a line
	quality   = 85   // of JPEG

	// MostPixels is how many a frame may have.
	MostPixels = 25_000_000
)

// Frame is a frame of a stream with what was found on it.
type Frame struct {
	At      time.Time // when it was answered
	Tensors map[string]wire.Tensor
}

// Of is a frame with those tensors of a request and its answer that o draws.
func Of(o pipelines.Overlay, at time.Time, inputs, outputs []wire.NamedTensor) Frame {
	f := Frame{At: at, Tensors: map[string]wire.Tensor{}}
	for _, name := range append([]string{o.Frame, o.Boxes}, o.Labels...) {
		for _, all := range [][]wire.NamedTensor{outputs, inputs} { // a name may be of both: the input goes first
			for _, t := range all {
				if t.Name == name && name != "" {
					f.Tensors[name] = t.Tensor
				}
			}
		}
	}
	return f
}

// Clone is a frame that shares no memory with others.
func (f Frame) Clone() Frame {
	all := make(map[string]wire.Tensor, len(f.Tensors))
	for name, t := range f.Tensors {
		t.Shape, t.Data = slices.Clone(t.Shape), slices.Clone(t.Data)
		all[name] = t
	}
	return Frame{f.At, all}
}

// Size is how many bytes the tensors are.
func (f Frame) Size() (n int) {
	for _, t := range f.Tensors {
		n += len(t.Data)
	}
	return n
}

// JPEG draws the frame, no side of it longer than most pixels.
func (f Frame) JPEG(o pipelines.Overlay, most int) ([]byte, error) {
	picture, err := f.Draw(o, most)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = jpeg.Encode(&b, picture, &jpeg.Options{Quality: quality})
	return b.Bytes(), err
}

// Draw draws the frame, no side of it longer than most pixels. Boxes that were not answered are not drawn.
func (f Frame) Draw(o pipelines.Overlay, most int) (*image.RGBA, error) {
	t, ok := f.Tensors[o.Frame]
	if !ok {
		return nil, fmt.Errorf("there is no %s", o.Frame)
	}
	picture, err := pictureOf(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Frame, err)
	}
	from := picture.Bounds()
	canvas, scale := scaled(picture, most)
	if o.Boxes == "" {
		return canvas, nil
	}
	if _, answered := f.Tensors[o.Boxes]; !answered {
		return canvas, nil
	}
	boxes, err := f.boxes(o, from)
	if err != nil {
		return nil, err
	}
	for i, b := range boxes {
		if b.none {
			continue
		}
		b.draw(canvas, scale, palette[b.colour(i)])
	}
	return canvas, nil
}

// pictureOf reads a frame.
func pictureOf(t wire.Tensor) (image.Image, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if t.Datatype == wire.Bytes {
		files, err := t.Strings()
		if err != nil || len(files) != 1 {
			return nil, errors.Join(err, fmt.Errorf("it has %d files, not one", len(files)))
		}
		return decode([]byte(files[0]))
	}
	height, width, planes, ok := pipelines.Port{Datatype: t.Datatype, Shape: t.Shape}.FrameShape()
	if !ok {
		return nil, fmt.Errorf("%s of shape %v is no picture", t.Datatype, t.Shape)
	}
	if width > MostPixels/height {
		return nil, fmt.Errorf("%d x %d pixels are more than %d", width, height, MostPixels)
	}
	level := func(i int) byte { return t.Data[i] }
	if t.Datatype == wire.FP32 {
		elements, err := t.Float32s()
		if err != nil {
			return nil, err
		}
		level = func(i int) byte { return byte(255*min(max(elements[i], 0), 1) + 0.5) } // NaN is 0 or 1 of any
	}
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	pixel, plane := 3, 1
	if planes {
		pixel, plane = 1, width*height
	}
	for i := range width * height {
		for k := range 3 {
			out.Pix[4*i+k] = level(i*pixel + k*plane)
		}
		out.Pix[4*i+3] = 255
	}
	return out, nil
}

// decode reads a JPEG or PNG, whose size it looks at first.
func decode(file []byte) (image.Image, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(file))
	switch {
	case err != nil:
		return nil, err
	case c.Width <= 0 || c.Height <= 0 || c.Width > MostPixels/c.Height:
		return nil, fmt.Errorf("%d x %d pixels are more than %d", c.Width, c.Height, MostPixels)
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	return picture, err
}

// scaled is a copy of a size for people, and by how much it is larger.
func scaled(picture image.Image, most int) (*image.RGBA, float64) {
	from := picture.Bounds()
	longer := max(from.Dx(), from.Dy())
	scale, how := 1.0, draw.Interpolator(draw.ApproxBiLinear)
	switch {
	case longer > most:
		scale = float64(most) / float64(longer)
	case longer < least:
		scale, how = min(math.Ceil(least/float64(longer)), max(1, math.Floor(float64(most)/float64(longer)))), draw.NearestNeighbor
	}
	size := func(n int) int { return max(1, int(float64(n)*scale)) }
	out := image.NewRGBA(image.Rect(0, 0, size(from.Dx()), size(from.Dy())))
	how.Scale(out, out.Bounds(), picture, from, draw.Src, nil)
	return out, scale
}

// box is one on a frame, in its pixels.
type box struct {
	x0, y0, x1, y1 float64
	words          []string
	identity       int64 // the first whole number among its labels; -1 for none
	none           bool  // it is not there
}

// boxes are those of a frame.
func (f Frame) boxes(o pipelines.Overlay, frame image.Rectangle) ([]box, error) {
	t := f.Tensors[o.Boxes]
	four, err := numbers(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Boxes, err)
	}
	if len(four)%4 != 0 || len(t.Shape) > 0 && len(four) > 0 && t.Shape[len(t.Shape)-1] != 4 {
		return nil, fmt.Errorf("%s is of shape %v, not [n, 4]", o.Boxes, t.Shape)
	}
	all := make([]box, min(len(four)/4, mostBoxes))
	for i := range all {
		all[i] = boxOf([4]float64(four[4*i:4*i+4]), o, frame)
	}
	for _, name := range o.Labels {
		t, answered := f.Tensors[name]
		if !answered {
			continue
		}
		words, whole, err := labels(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(words) != len(four)/4 {
			return nil, fmt.Errorf("%s has %d elements for %d boxes", name, len(words), len(four)/4)
		}
		for i := range all {
			all[i].words = append(all[i].words, words[i])
			if whole == nil {
				continue
			}
			if all[i].none = all[i].none || whole[i] < 0; all[i].identity < 0 {
				all[i].identity = whole[i]
			}
		}
	}
	return all, nil
}

// boxOf is a box by its four numbers. One without a width or height is none, as lists of a fixed length end.
func boxOf(four [4]float64, o pipelines.Overlay, frame image.Rectangle) box {
	if o.Unit == pipelines.UnitFractions {
		for i := range four {
			four[i] *= float64([2]int{frame.Dx(), frame.Dy()}[i%2])
		}
	}
	b := box{x0: four[0], y0: four[1], x1: four[2], y1: four[3], identity: -1}
	switch o.Corners {
	case pipelines.CornersXYWH:
		b.x1, b.y1 = b.x0+b.x1, b.y0+b.y1
	case pipelines.CornersCXCYWH:
		w, h := b.x1, b.y1
		b.x0, b.y0, b.x1, b.y1 = b.x0-w/2, b.y0-h/2, b.x0+w/2, b.y0+h/2
	}
	b.none = !(b.x1 > b.x0 && b.y1 > b.y0) || math.IsInf(b.x1-b.x0, 0) || math.IsInf(b.y1-b.y0, 0)
	return b
}

// numbers are the elements of a tensor of any kind of number.
func numbers(t wire.Tensor) ([]float64, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	switch t.Datatype {
	case wire.FP64:
		return t.Float64s()
	case wire.FP32:
		return floats(t.Float32s())
	case wire.FP16:
		return floats(t.Float16s())
	case wire.Int32:
		return floats(t.Int32s())
	case wire.Int64:
		return floats(t.Int64s())
	case wire.Uint8:
		return floats(t.Uint8s())
	}
	return nil, fmt.Errorf("numbers of %s cannot be drawn", t.Datatype)
}

func floats[T float32 | int32 | int64 | uint8](from []T, err error) ([]float64, error) {
	out := make([]float64, len(from))
	for i, x := range from {
		out[i] = float64(x)
	}
	return out, err
}

// labels are what is written of each element; whole is nil where they are not whole numbers.
func labels(t wire.Tensor) (words []string, whole []int64, err error) {
	if t.Datatype == wire.Bytes {
		if err := t.Validate(); err != nil {
			return nil, nil, err
		}
		words, err = t.Strings()
		for i, w := range words {
			words[i] = printable(w)
		}
		return words, nil, err
	}
	all, err := numbers(t)
	words = make([]string, len(all))
	integral := strings.Contains(t.Datatype, "INT")
	for i, x := range all {
		if words[i] = strconv.FormatFloat(x, 'f', 2, 64); integral {
			words[i] = strconv.FormatFloat(x, 'f', 0, 64)
			whole = append(whole, int64(x))
		}
	}
	return words, whole, err
}

// printable is a text as the font has letters for it.
func printable(s string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s))
	if len(letters) > mostWord {
		return string(letters[:mostWord-2]) + ".."
	}
	return string(letters)
}

// palette has colours that are distinct on a road and to most eyes (P. Green-Armytage, A Colour
// Alphabet, 2010).
var palette = []color.RGBA{
	{255, 0, 16, 255}, {43, 206, 72, 255}, {0, 117, 220, 255}, {255, 164, 5, 255}, {240, 163, 255, 255},
	{94, 241, 242, 255}, {255, 255, 128, 255}, {157, 204, 0, 255}, {255, 168, 187, 255}, {116, 10, 255, 255},
}

// colour is that of the box: by its identity, so that it stays from frame to frame.
func (b box) colour(place int) int {
	if b.identity >= 0 {
		return int(b.identity % int64(len(palette)))
	}
	return place % len(palette)
}

// draw draws the box and its words on a canvas that is larger than the frame by scale.
func (b box) draw(canvas *image.RGBA, scale float64, c color.RGBA) {
	const far = 1e6 // off any canvas
	at := func(x float64) int { return int(min(max(x*scale, -far), far)) }
	whole := canvas.Bounds()
	r := image.Rect(at(b.x0), at(b.y0), at(b.x1), at(b.y1))
	paint := image.NewUniform(c)
	for _, side := range []image.Rectangle{
		image.Rect(r.Min.X, r.Min.Y, r.Max.X, r.Min.Y+thick), image.Rect(r.Min.X, r.Max.Y-thick, r.Max.X, r.Max.Y),
		image.Rect(r.Min.X, r.Min.Y, r.Min.X+thick, r.Max.Y), image.Rect(r.Max.X-thick, r.Min.Y, r.Max.X, r.Max.Y),
	} {
		draw.Draw(canvas, side.Intersect(whole), paint, image.Point{}, draw.Src)
	}
	text := strings.Join(b.words, " ")
	if text == "" || !r.Overlaps(whole) {
		return
	}
	face := basicfont.Face7x13
	width, height := face.Advance*len(text)+2, face.Height
	x := min(max(r.Min.X, 0), max(0, whole.Dx()-width))
	y := r.Min.Y - height // above the box, or in it where there is no room
	if y < 0 {
		y = max(0, r.Min.Y)
	}
	y = min(y, max(0, whole.Dy()-height))
	draw.Draw(canvas, image.Rect(x, y, x+width, y+height).Intersect(whole), paint, image.Point{}, draw.Src)
	ink := image.Black
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) < 128_000 { // luma, ITU-R BT.601
		ink = image.White
	}
	d := font.Drawer{Dst: canvas, Src: ink, Face: face, Dot: fixed.P(x+1, y+face.Ascent)}
	d.DrawString(text)
}
