package steps

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
)

// picture draws a pattern of slopes on any kind of image.
func picture(m interface{ Set(x, y int, c color.Color) }, width, height int) {
	for y := range height {
		for x := range width {
			m.Set(x, y, color.NRGBA{R: byte(5 * x), G: byte(7 * y), B: byte(3 * (x + y)), A: byte(128 + x)})
		}
	}
}

func asPNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, m))
	return file.Bytes()
}

func asJPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, jpeg.Encode(&file, m, &jpeg.Options{Quality: 95}))
	return file.Bytes()
}

func fileTensor(data []byte) wire.Tensor { return wire.FromStrings([]string{string(data)}) }

func TestDecodeImageGivesThePixelsOfPNG(t *testing.T) {
	r := image.Rect(0, 0, 5, 3)
	grey, clear, deep, opaque := image.NewGray(r), image.NewNRGBA(r), image.NewNRGBA64(r), image.NewRGBA(r)
	palette := image.NewPaletted(r, color.Palette{color.NRGBA{R: 1, G: 2, B: 3, A: 255}, color.NRGBA{R: 200, G: 100, B: 50, A: 40}})
	palette.SetColorIndex(4, 2, 1)
	picture(clear, 5, 3)
	picture(deep, 5, 3)
	for y := range 3 {
		for x := range 5 {
			grey.SetGray(x, y, color.Gray{Y: byte(10*x + y)})
			opaque.SetRGBA(x, y, color.RGBA{R: byte(x), G: byte(y), B: 9, A: 255})
		}
	}
	for name, c := range map[string]struct {
		m    image.Image
		x, y int
		want [3]byte
	}{
		"grey":    {grey, 4, 2, [3]byte{42, 42, 42}},
		"clear":   {clear, 4, 2, [3]byte{20, 14, 18}},
		"16 bits": {deep, 3, 1, [3]byte{15, 7, 12}},
		"opaque":  {opaque, 2, 1, [3]byte{2, 1, 9}},
		"palette": {palette, 4, 2, [3]byte{200, 100, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := call(t, load(t, "decode_image", nil), fileTensor(asPNG(t, c.m)))[0]
			require.Equal(t, []int64{3, 3, 5}, answer.Shape)
			for i, want := range c.want {
				require.Equal(t, want, answer.Data[i*15+c.y*5+c.x])
			}
		})
	}
	one := call(t, load(t, "decode_image", params{"channels": 1.0, "datatype": "UINT8"}), wire.FromUint8(asPNG(t, opaque)))[0]
	require.Equal(t, []int64{1, 3, 5}, one.Shape)
	require.Equal(t, byte(math.Floor((19595*4+38470*2+7471*9+32768)/65536.)), one.Data[2*5+4])
}

func TestDecodeImageRefusesWhatIsNoPicture(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 40, 20))
	picture(m, 40, 20)
	whole := asPNG(t, m)
	i := load(t, "decode_image", params{"max_pixels": 799.0})
	refuses(t, i, "40 x 20 pixels is larger than max_pixels = 799", fileTensor(whole))
	refuses(t, i, "40 x 20 pixels is larger", fileTensor(asJPEG(t, m)))
	i = load(t, "decode_image", params{"max_pixels": 800.0})
	call(t, i, fileTensor(whole))
	refuses(t, i, "neither JPEG nor PNG", fileTensor(nil))
	refuses(t, i, "neither JPEG nor PNG", fileTensor([]byte("GIF89a")))
	refuses(t, i, "cannot be read", fileTensor(whole[:len(whole)/2]))
	refuses(t, i, "cannot be read", fileTensor([]byte("\xff\xd8\xff")))
	_, err := Builtin().prepare(moduleOf("decode_image", params{"channels": 2.0}))
	require.ErrorContains(t, err, `parameter "channels" must be 3 or 1`)
}

func TestDecodeImageMakesItsOwnSample(t *testing.T) {
	for _, datatype := range []string{wire.Bytes, wire.Uint8} {
		i := load(t, "decode_image", params{"datatype": datatype})
		answer := call(t, i, i.(executors.Sampler).Sample([][]int64{{1}}, rand.New(rand.NewPCG(1, 2)))...)
		require.Equal(t, []int64{3, 480, 640}, answer[0].Shape)
	}
}

func FuzzDecodeImage(f *testing.F) {
	m := image.NewNRGBA(image.Rect(0, 0, 9, 7))
	picture(m, 9, 7)
	f.Add(asPNG(f, m))
	f.Add(asJPEG(f, m))
	f.Add([]byte("\xff\xd8\xff\xe0"))
	i := load(f, "decode_image", params{"max_pixels": 65536.0})
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testkit.WatchStalls(t, len(data))()
		answers, err := i.Run(t.Context(), [][]wire.Tensor{{fileTensor(data)}})
		if err != nil {
			require.ErrorIs(t, err, wire.ErrInvalid)
			return
		}
		require.NoError(t, executors.Check(i.Signature().Outputs, answers[0]))
	})
}

// pillow runs a program of Python's imaging library, which is what most networks
// were trained with, and reads the JSON that it prints.
func pillow(t *testing.T, program string, file []byte, into any) {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import PIL, numpy").Run() != nil {
			continue
		}
		cmd := exec.Command(python, "-c", "import sys, base64, io, json, numpy\nfrom PIL import Image\nm = Image.open(io.BytesIO(base64.b64decode(sys.stdin.read())))\n"+program)
		cmd.Stdin = bytes.NewReader([]byte(base64.StdEncoding.EncodeToString(file)))
		out, err := cmd.Output()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out, into))
		return
	}
	t.Skip("needs python3 with Pillow and numpy (Debian: python3-pil, python3-numpy)")
}

// worst is the largest difference of two pictures, and the mean one.
func worst(t *testing.T, want []float64, got []float64) (largest, mean float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		d := math.Abs(want[i] - got[i])
		largest, mean = max(largest, d), mean+d/float64(len(want))
	}
	return largest, mean
}

func bytesOf(x wire.Tensor) []float64 {
	all := make([]float64, len(x.Data))
	for i, b := range x.Data {
		all[i] = float64(b)
	}
	return all
}

const printPlanes = "print(json.dumps(numpy.asarray(m.convert('RGB')).transpose(2, 0, 1).ravel().tolist()))"

func TestDecodeImageAgreesWithPillow(t *testing.T) {
	clear := image.NewNRGBA(image.Rect(0, 0, 33, 21))
	picture(clear, 33, 21)
	smooth := image.NewRGBA(image.Rect(0, 0, 64, 48))
	for y := range 48 {
		for x := range 64 {
			smooth.SetRGBA(x, y, color.RGBA{R: byte(3 * x), G: byte(4 * y), B: byte(2 * (x + y)), A: 255})
		}
	}
	i := load(t, "decode_image", nil)
	for name, c := range map[string]struct {
		file          []byte
		largest, mean float64
	}{
		"png":  {asPNG(t, clear), 0, 0},
		"jpeg": {asJPEG(t, smooth), 12, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var want []float64
			pillow(t, printPlanes, c.file, &want)
			largest, mean := worst(t, want, bytesOf(call(t, i, fileTensor(c.file))[0]))
			t.Logf("largest difference %g levels, mean %.3g", largest, mean)
			require.LessOrEqual(t, largest, c.largest)
			require.LessOrEqual(t, mean, c.mean)
		})
	}
}

func TestSmoothResizeAgreesWithPillow(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 61, 47))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range m.Pix {
		m.Pix[i] = byte(rng.IntN(256)) | byte(255*(i%4/3)) // opaque
	}
	decoded := call(t, load(t, "decode_image", nil), fileTensor(asPNG(t, m)))[0]
	for _, size := range [][2]int{{20, 15}, {61, 10}, {100, 90}, {61, 47}, {1, 1}} {
		var want []float64
		program, err := json.Marshal(size)
		require.NoError(t, err)
		pillow(t, "m = m.convert('RGB').resize("+string(program)+", Image.BILINEAR)\n"+printPlanes, asPNG(t, m), &want)
		i := load(t, "resize", params{"width": float64(size[0]), "height": float64(size[1]), "smooth": true, "datatype": "UINT8", "gain": 1.0})
		got := floats(t, call(t, i, decoded)[0])
		wide := make([]float64, len(got))
		for j, x := range got {
			wide[j] = float64(x)
		}
		largest, _ := worst(t, want, wide)
		require.LessOrEqual(t, largest, 1.5, "to %v; Pillow rounds twice to whole levels", size)
	}
}

// room grants so many bytes at a time, and notes the most.
type room struct{ limit, used, most int64 }

func (r *room) Take(n int64) (func(), error) {
	if r.used+n > r.limit {
		return nil, wire.Errorf(wire.CodeOverloaded, "", "no room")
	}
	r.used += n
	r.most = max(r.most, r.used)
	return func() { r.used -= n }, nil
}

// TestPicturesAskForMemoryBeforeTheyAreDecoded holds what a picture counts as, by what its
// file reports that it is, and that it is not decoded where there is no room for that.
func TestPicturesAskForMemoryBeforeTheyAreDecoded(t *testing.T) {
	r := image.Rect(0, 0, 40, 20)
	clear, deep := image.NewNRGBA(r), image.NewNRGBA64(r)
	picture(clear, 40, 20)
	picture(deep, 40, 20)
	interlaced := bytes.Clone(asPNG(t, clear))
	interlaced[28] = 1
	binary.BigEndian.PutUint32(interlaced[29:], crc32.ChecksumIEEE(interlaced[12:29]))
	progressive := bytes.Clone(asJPEG(t, clear))
	at := bytes.Index(progressive, []byte{0xff, 0xc0})
	progressive[at+1] = 0xc2
	hidden := append([]byte{0xff, 0xd8, 0xff, 0xd0, 0xff, 0xfe, 0, 6, 0xff, 0xc0, 0, 0}, progressive[2:]...) // in a comment
	for name, c := range map[string]struct {
		file []byte
		each int64
	}{
		"PNG": {asPNG(t, clear), 4}, "of 16 bits": {asPNG(t, deep), 8}, "grey": {asPNG(t, image.NewGray(r)), 1},
		"interlaced": {interlaced, 8}, "JPEG": {asJPEG(t, clear), 8}, "progressive": {progressive, 24}, "hidden": {hidden, 24},
	} {
		i := load(t, "decode_image", nil)
		want := 40 * 20 * (3 + c.each)
		m := &room{limit: want}
		ctx, done := executors.WithMemory(t.Context(), m)
		_, err := i.Run(ctx, [][]wire.Tensor{{fileTensor(c.file)}})
		require.Equal(t, want, m.most, name)
		if err == nil {
			require.EqualValues(t, 40*20*3, m.used, "%s: what it has made, until the batch is answered", name)
		}
		done()
		require.Zero(t, m.used, name)
		m.limit = want - 1
		ctx, done = executors.WithMemory(t.Context(), m)
		_, err = i.Run(ctx, [][]wire.Tensor{{fileTensor(c.file)}})
		var typed *wire.Error
		require.ErrorAs(t, err, &typed, name)
		require.Equal(t, wire.CodeOverloaded, typed.Code, name)
		done()
	}
}
