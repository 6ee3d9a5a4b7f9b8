package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// DecodeImage decodes a picture, JPEG or PNG, as a camera or a browser makes it.
//
//	file   BYTES [1]: the file, or UINT8 [N]: its bytes
//	image  UINT8 [C, H, W]: red, green and blue, or grey
//
// Transparency is dropped, as if every pixel were opaque. Of 16 bits a channel the
// upper eight count. Grey is (19595 R + 38470 G + 7471 B + 32768) / 65536, rounded
// down (ITU-R BT.601). A picture is taken as it is stored: the orientation that a
// camera notes beside it is not applied. PNG decodes to the same bytes anywhere;
// JPEG decoders differ by a few levels, and by more at sharp edges of colour, because
// the standard leaves the interpolation of colour open.
//
// Parameters:
//
//	datatype    of the file: "BYTES" (default) or "UINT8"
//	channels    3 (default) or 1
//	max_pixels  a larger picture is refused before it is decoded, 1 to 1e8;
//	            default 25 million
func DecodeImage() Function {
	return Function{Doc: "a JPEG or PNG file to pixels", Prepare: prepareDecode}
}

func prepareDecode(p *Parameters) (Step, error) {
	datatype := p.Choice("datatype", wire.Bytes, wire.Uint8)
	channels := p.Whole("channels", 3, 1, 3)
	most := p.Whole("max_pixels", 25e6, 1, 1e8)
	if channels == 2 {
		p.Failf("channels", "must be 3 or 1, not 2")
	}
	file := pipelines.Port{Name: "file", Datatype: datatype, Shape: []int64{1}}
	if datatype == wire.Uint8 {
		file.Shape[0] = -1
	}
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{file},
			Outputs: []pipelines.Port{{Name: "image", Datatype: wire.Uint8, Shape: []int64{int64(channels), -1, -1}}},
		},
		Call: func(ctx context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			data, err := fileBytes(inputs[0])
			if err != nil {
				return nil, err
			}
			pixels, each, err := measurePicture(data, most)
			if err != nil {
				return nil, err
			}
			release, err := executors.ReserveMemory(ctx, int64(pixels)*int64(each+channels))
			if err != nil {
				return nil, err
			}
			defer release()
			picture, err := decodePicture(data)
			if err != nil {
				return nil, err
			}
			return []wire.Tensor{planes(picture, channels)}, nil
		},
		Sample: func(_ [][]int64, rng *rand.Rand) []wire.Tensor { return []wire.Tensor{samplePicture(datatype, rng)} },
	}, nil
}

// fileBytes are the bytes of the file in the tensor.
func fileBytes(t wire.Tensor) ([]byte, error) {
	if t.Datatype == wire.Uint8 {
		return t.Data, nil
	}
	files, err := t.Strings()
	if err != nil {
		return nil, err
	}
	return []byte(files[0]), nil
}

func isJPEG(data []byte) bool { return bytes.HasPrefix(data, []byte("\xff\xd8")) }

// measurePicture is how many pixels a picture has, and how many bytes each takes to decode,
// at most.
func measurePicture(data []byte, most int) (pixels, each int, err error) {
	size := png.DecodeConfig
	switch {
	case isJPEG(data):
		size = jpeg.DecodeConfig
	case !bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return 0, 0, fmt.Errorf("the file of %d bytes is neither JPEG nor PNG", len(data))
	}
	c, err := size(bytes.NewReader(data))
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("the picture cannot be read: %w", err)
	case c.Width <= 0 || c.Height <= 0:
		return 0, 0, errors.New("the picture has no pixels")
	case c.Width > most/c.Height:
		return 0, 0, fmt.Errorf("the picture of %d x %d pixels is larger than max_pixels = %d", c.Width, c.Height, most)
	}
	return c.Width * c.Height, bytesPerPixel(data, c.ColorModel), nil
}

// bytesPerPixel is what the standard library's decoders hold of a picture, at most.
func bytesPerPixel(data []byte, m color.Model) int {
	const (
		jpegSamples  = 4 + 4               // and as many again where they are CMYK
		coefficients = jpegSamples / 2 * 4 // of 32 bits, which are kept where a JPEG is progressive
		interlaced   = 28                  // offset of a PNG's interlace method
	)
	if isJPEG(data) {
		if progressive(data) {
			return jpegSamples + coefficients
		}
		return jpegSamples
	}
	each := 8
	switch m {
	case color.GrayModel:
		each = 1
	case color.Gray16Model:
		each = 2
	case color.RGBAModel, color.NRGBAModel:
		each = 4
	default:
		if _, ok := m.(color.Palette); ok {
			each = 1
		}
	}
	if data[interlaced] != 0 {
		each *= 2 // its passes are pictures, too
	}
	return each
}

// progressive reports whether a JPEG is: its first frame header decides. What is none counts
// as one.
func progressive(data []byte) bool {
	const first, last, rest = 0xc0, 0xcf, 2
	for at := rest; at+4 <= len(data) && data[at] == 0xff; {
		switch kind := data[at+1]; {
		case kind == 0xff: // filling
			at++
			continue
		case kind == 0 || kind >= 0xd0 && kind <= 0xd7: // decoders skip these, which have no length
			at += rest
			continue
		case kind >= first && kind <= last && kind != 0xc4 && kind != 0xc8 && kind != 0xcc: // tables and extensions
			return kind > first+1
		}
		at += rest + int(data[at+2])<<8 + int(data[at+3])
	}
	return true
}

func decodePicture(data []byte) (image.Image, error) {
	read := png.Decode
	if isJPEG(data) {
		read = jpeg.Decode
	}
	picture, err := read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the picture cannot be read: %w", err)
	}
	return picture, nil
}

// planes lays a picture out as [channels, H, W].
func planes(picture image.Image, channels int) wire.Tensor {
	bounds := picture.Bounds()
	area := bounds.Dx() * bounds.Dy()
	out := make([]byte, channels*area)
	pixel := pixelsOf(picture)
	i := 0
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b := pixel(x, y)
			if channels == 1 {
				out[i] = byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
			} else {
				out[i], out[area+i], out[2*area+i] = r, g, b
			}
			i++
		}
	}
	return wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(channels), int64(bounds.Dy()), int64(bounds.Dx())}, Data: out}
}

// pixelsOf reads single pixels, without an allocation for the kinds of image that
// files mostly hold.
func pixelsOf(picture image.Image) func(x, y int) (r, g, b byte) {
	switch m := picture.(type) {
	case *image.YCbCr:
		return func(x, y int) (r, g, b byte) {
			c := m.COffset(x, y)
			return color.YCbCrToRGB(m.Y[m.YOffset(x, y)], m.Cb[c], m.Cr[c])
		}
	case *image.Gray:
		return func(x, y int) (r, g, b byte) {
			v := m.Pix[m.PixOffset(x, y)]
			return v, v, v
		}
	case *image.NRGBA:
		return func(x, y int) (r, g, b byte) {
			c := m.Pix[m.PixOffset(x, y):]
			return c[0], c[1], c[2]
		}
	case *image.RGBA: // of PNG: opaque, so nothing is multiplied into it
		return func(x, y int) (r, g, b byte) {
			c := m.Pix[m.PixOffset(x, y):]
			return c[0], c[1], c[2]
		}
	case *image.NRGBA64:
		return func(x, y int) (r, g, b byte) {
			c := m.Pix[m.PixOffset(x, y):]
			return c[0], c[2], c[4]
		}
	}
	return func(x, y int) (r, g, b byte) {
		c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
		return c.R, c.G, c.B
	}
}

// samplePicture is a JPEG of 640 x 480 pixels with some structure in it, since flat
// colour decodes faster than what cameras see.
func samplePicture(datatype string, rng *rand.Rand) wire.Tensor {
	m := image.NewRGBA(image.Rect(0, 0, 640, 480))
	shade := [3]int{rng.IntN(256), rng.IntN(256), rng.IntN(256)}
	for y := range 480 {
		for x := range 640 {
			n := rng.IntN(32)
			m.SetRGBA(x, y, color.RGBA{R: byte(shade[0] + x/4 + n), G: byte(shade[1] + y/3 + n), B: byte(shade[2] + (x+y)/8 + n), A: 255})
		}
	}
	var file bytes.Buffer
	_ = jpeg.Encode(&file, m, nil) // a buffer takes all, and the size is legal
	if datatype == wire.Bytes {
		return wire.FromStrings([]string{file.String()}).Reshape(1)
	}
	return wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(file.Len())}, Data: file.Bytes()}
}
