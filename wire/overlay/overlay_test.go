package overlay

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// grey is a frame of one shade, and its tensor in every way in which frames come.
func grey(height, width int) map[string]wire.Tensor {
	n := 3 * height * width
	bytes8, floats := make([]byte, n), make([]float32, n)
	m := image.NewGray(image.Rect(0, 0, width, height))
	for i := range n {
		bytes8[i], floats[i] = 102, 0.4
	}
	for i := range m.Pix {
		m.Pix[i] = 102
	}
	h, w := int64(height), int64(width)
	return map[string]wire.Tensor{
		"planes":        wire.FromUint8(bytes8, 3, h, w),
		"pixels":        wire.FromUint8(bytes8, h, w, 3),
		"planes of FP":  wire.FromFloat32(floats, 3, h, w),
		"pixels of FP":  wire.FromFloat32(floats, h, w, 3),
		"a JPEG":        wire.FromStrings([]string{file(m, false)}),
		"a PNG":         wire.FromStrings([]string{file(m, true)}).Reshape(),
		"a PNG by rank": wire.FromStrings([]string{file(m, true)}).Reshape(1),
	}
}

func file(m image.Image, isPNG bool) string {
	var b bytes.Buffer
	if isPNG {
		_ = png.Encode(&b, m)
	} else {
		_ = jpeg.Encode(&b, m, nil)
	}
	return b.String()
}

var shade = color.RGBA{102, 102, 102, 255}

// A box is at its coordinates, in whatever form they and the frame come.
func TestBoxesAreWhereTheyAre(t *testing.T) {
	for kind, frame := range grey(400, 600) {
		for _, c := range []struct {
			corners, unit string
			four          []float32
		}{
			{"", "", []float32{60, 100, 180, 300}},
			{pipelines.CornersXYXY, pipelines.UnitPixels, []float32{60, 100, 180, 300}},
			{pipelines.CornersXYWH, "", []float32{60, 100, 120, 200}},
			{pipelines.CornersCXCYWH, "", []float32{120, 200, 120, 200}},
			{"", pipelines.UnitFractions, []float32{0.1, 0.25, 0.3, 0.75}},
		} {
			o := pipelines.Overlay{Frame: "f", Boxes: "b", Corners: c.corners, Unit: c.unit}
			f := Of(o, time.Time{}, []wire.NamedTensor{{Name: "f", Tensor: frame}}, []wire.NamedTensor{{Name: "b", Tensor: wire.FromFloat32(c.four, 1, 4)}})
			picture, err := f.Draw(o, 1280)
			require.NoError(t, err, kind)
			require.Equal(t, image.Pt(600, 400), picture.Bounds().Size())
			for _, on := range []image.Point{{60, 100}, {179, 299}, {61, 200}, {178, 101}, {120, 100}} {
				assert.Equal(t, palette[0], picture.RGBAAt(on.X, on.Y), "%s, %v at %v", kind, c, on)
			}
			for _, off := range []image.Point{{58, 100}, {181, 200}, {120, 200}, {60, 303}, {64, 104}} {
				assert.Equal(t, shade, picture.RGBAAt(off.X, off.Y), "%s, %v at %v", kind, c, off)
			}
		}
	}
}

// A small frame is magnified and a large one made smaller, and boxes with them.
func TestFramesAreOfASizeForPeople(t *testing.T) {
	o := pipelines.Overlay{Frame: "f", Boxes: "b"}
	for _, c := range []struct{ height, width, most, wantHeight, wantWidth int }{
		{96, 96, 1280, 384, 384}, {48, 96, 1280, 192, 384}, {96, 96, 200, 192, 192}, {96, 96, 50, 50, 50}, {1000, 2000, 640, 320, 640}, {400, 300, 1280, 400, 300}, {1, 3000, 300, 1, 300},
	} {
		f := Frame{Tensors: map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{int64(c.height), int64(c.width), 3}), "b": wire.FromFloat32([]float32{0, 0, float32(c.width), float32(c.height)}, 1, 4)}}
		picture, err := f.Draw(o, c.most)
		require.NoError(t, err)
		assert.Equal(t, image.Pt(c.wantWidth, c.wantHeight), picture.Bounds().Size(), "%v", c)
		assert.Equal(t, palette[0], picture.RGBAAt(c.wantWidth-1, c.wantHeight-1))
		out, err := f.JPEG(o, c.most)
		require.NoError(t, err)
		_, err = jpeg.Decode(bytes.NewReader(out))
		require.NoError(t, err)
	}
}

// What is written beside a box is all of its labels; its colour is that of its identity, and what has none
// or no size is not there.
func TestLabelsOfBoxes(t *testing.T) {
	o := pipelines.Overlay{Frame: "f", Boxes: "b", Labels: []string{"kinds", "scores", "ids", "absent"}}
	f := Frame{Tensors: map[string]wire.Tensor{
		"f":      wire.Zeros(wire.Uint8, []int64{400, 400, 3}),
		"b":      wire.FromFloat32([]float32{10, 50, 60, 90, 100, 50, 100, 90, 10, 200, 60, 240, 100, 200, 160, 240, float32(math.NaN()), 0, 1, 1}, 5, 4),
		"kinds":  wire.FromStrings([]string{"car", "bus", "läng\x00er" + string(make([]byte, 40)), "bus", ""}),
		"scores": wire.FromFloat32([]float32{0.5, 1, 0.25, 1, 0}, 5),
		"ids":    wire.FromInt64([]int64{13, 2, 7, -1, 3}, 5),
	}}
	boxes, err := f.boxes(o, image.Rect(0, 0, 400, 400))
	require.NoError(t, err)
	assert.Equal(t, []string{"car", "0.50", "13"}, boxes[0].words)
	assert.Equal(t, "l?ng?er???????????????..", boxes[2].words[0])
	assert.Equal(t, []bool{false, true, false, true, true}, []bool{boxes[0].none, boxes[1].none, boxes[2].none, boxes[3].none, boxes[4].none})
	picture, err := f.Draw(o, 1280)
	require.NoError(t, err)
	assert.Equal(t, palette[3], picture.RGBAAt(10, 60), "of identity 13")
	assert.Equal(t, palette[7], picture.RGBAAt(10, 210))
	assert.Equal(t, palette[3], picture.RGBAAt(10, 50-13), "what is written has its ground")
	assert.Equal(t, color.RGBA{0, 0, 0, 255}, picture.RGBAAt(100, 210), "identity -1 is none")
	words := 0
	for x := 10; x < 110; x++ {
		for y := 37; y < 50; y++ {
			if picture.RGBAAt(x, y) == (color.RGBA{0, 0, 0, 255}) {
				words++
			}
		}
	}
	assert.Greater(t, words, 50, "letters are there")
	delete(f.Tensors, "b")
	_, err = f.Draw(o, 1280)
	require.NoError(t, err, "a client that did not request boxes gets the frame")
}

// What cannot be drawn is an error that names it.
func TestWhatCannotBeDrawn(t *testing.T) {
	o := pipelines.Overlay{Frame: "f", Boxes: "b", Labels: []string{"l"}}
	good := map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{3, 20, 20}), "b": wire.FromFloat32(make([]float32, 8), 2, 4), "l": wire.FromInt64([]int64{1, 2}, 2)}
	for name, c := range map[string]struct {
		tensor string
		of     wire.Tensor
		says   string
	}{
		"no picture":     {"f", wire.Zeros(wire.Uint8, []int64{4, 20, 20}), "f: UINT8 of shape [4 20 20] is no picture"},
		"short":          {"f", wire.Tensor{Datatype: wire.Uint8, Shape: []int64{3, 20, 20}, Data: make([]byte, 7)}, "f: wire: shape [3 20 20]"},
		"no file":        {"f", wire.FromStrings([]string{"GIF"}), "f: image: unknown format"},
		"two files":      {"f", wire.FromStrings([]string{"a", "b"}), "f: it has 2 files, not one"},
		"a bomb":         {"f", wire.FromStrings([]string{bomb()}), "f: 60000 x 60000 pixels are more than 25000000"},
		"no boxes":       {"b", wire.FromFloat32(make([]float32, 6), 2, 3), "b is of shape [2 3], not [n, 4]"},
		"boxes of words": {"b", wire.FromStrings([]string{"a"}), "b: numbers of BYTES cannot be drawn"},
		"other count":    {"l", wire.FromInt64([]int64{1}, 1), "l has 1 elements for 2 boxes"},
		"odd numbers":    {"l", wire.FromBools([]bool{true, false}, 2), "l: numbers of BOOL cannot be drawn"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Frame{Tensors: map[string]wire.Tensor{}}
			for k, v := range good {
				f.Tensors[k] = v
			}
			_, err := f.Draw(o, 640)
			require.NoError(t, err)
			f.Tensors[c.tensor] = c.of
			_, err = f.JPEG(o, 640)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := Frame{}.Draw(o, 640)
	require.ErrorContains(t, err, "there is no f")
}

// bomb is a PNG whose header claims 60000 x 60000 pixels.
func bomb() string {
	b := []byte(file(image.NewGray(image.Rect(0, 0, 1, 1)), true))
	copy(b[16:24], []byte{0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60})
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return string(b)
}

// A clone keeps what it was when buffers are used again.
func TestClone(t *testing.T) {
	x := wire.Zeros(wire.Uint8, []int64{3, 2, 2})
	f := Of(pipelines.Overlay{Frame: "f"}, time.Unix(5, 0), []wire.NamedTensor{{Name: "f", Tensor: x}, {Name: "other", Tensor: x}}, nil)
	assert.Equal(t, 12, f.Size())
	c := f.Clone()
	x.Data[0], x.Shape[0] = 9, 9
	assert.Equal(t, byte(0), c.Tensors["f"].Data[0])
	assert.Equal(t, int64(3), c.Tensors["f"].Shape[0])
	assert.Equal(t, time.Unix(5, 0), c.At)
	assert.Len(t, c.Tensors, 1)
}

// Whatever strangers send, drawing ends with a picture or an error.
func FuzzDraw(f *testing.F) {
	f.Add([]byte(bomb()), 20, 20, []byte{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f, 0, 0, 0, 0x80}, uint8(0))
	f.Add([]byte(file(image.NewGray(image.Rect(0, 0, 8, 8)), false)), 1, 300, make([]byte, 64), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, height, width int, four []byte, how uint8) {
		o := pipelines.Overlay{Frame: "f", Boxes: "b", Corners: pipelines.OverlayCorners()[how%3], Unit: pipelines.OverlayUnits()[how/3%2], Labels: []string{"l"}}
		all := map[string]wire.Tensor{
			"b": {Datatype: wire.FP32, Shape: []int64{int64(len(four) / 16), 4}, Data: four[:len(four)/16*16]},
			"l": {Datatype: wire.Uint8, Shape: []int64{int64(len(four) / 16)}, Data: make([]byte, len(four)/16)},
		}
		if all["f"] = wire.FromStrings([]string{string(data)}); how%2 == 0 && height > 0 && width > 0 && height < 300 && width < 300 {
			raw := make([]byte, 3*height*width)
			copy(raw, data)
			all["f"] = wire.FromUint8(raw, int64(height), int64(width), 3)
		}
		picture, err := Frame{Tensors: all}.Draw(o, 100)
		if err == nil {
			assert.LessOrEqual(t, max(picture.Bounds().Dx(), picture.Bounds().Dy()), 100)
		}
	})
}
