package scene

import (
	"image"
	"image/color"
	"image/png"
	"io"
)

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
