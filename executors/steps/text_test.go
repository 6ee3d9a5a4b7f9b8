package steps

import (
	background "context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func prepared(t require.TestingT, function string, parameters map[string]any) executors.Instance {
	in, err := New(Builtin()).Load(background.Background(), executors.Model{Module: pipelines.Module{Name: "m", Function: function, Parameters: parameters}})
	require.NoError(t, err)
	return in
}

func called(t require.TestingT, in executors.Instance, inputs ...wire.Tensor) []wire.Tensor {
	require.NoError(t, executors.Check(in.Signature().Inputs, inputs))
	all, err := in.Run(background.Background(), [][]wire.Tensor{inputs})
	require.NoError(t, err)
	require.NoError(t, executors.Check(in.Signature().Outputs, all[0]))
	return all[0]
}

func numbers(t require.TestingT, x wire.Tensor) []float32 {
	all, err := x.Float32s()
	require.NoError(t, err)
	return all
}

func TestLetterboxShrinksAndNormalises(t *testing.T) {
	in := prepared(t, "letterbox", map[string]any{
		"width": 4.0, "height": 2.0, "datatype": "UINT8", "gain": 1.0, "order": "bgr", "mean": []any{1.0, 2.0, 3.0}, "deviation": 2.0,
	})
	red, green, blue := slices.Repeat([]uint8{11}, 32), slices.Repeat([]uint8{22}, 32), slices.Repeat([]uint8{33}, 32)
	out := called(t, in, wire.FromUint8(slices.Concat(red, green, blue), 3, 4, 8))
	assert.Equal(t, []float32{0.5}, numbers(t, out[1]))
	want := slices.Concat(slices.Repeat([]float32{16}, 8), slices.Repeat([]float32{10}, 8), slices.Repeat([]float32{4}, 8))
	assert.InDeltaSlice(t, want, numbers(t, out[0]), 1e-4, "(33-1)/2, (22-2)/2, (11-3)/2")

	small := called(t, in, wire.FromUint8([]uint8{11, 22, 33}, 3, 1, 1))
	assert.Equal(t, []float32{1}, numbers(t, small[1]), "nothing is enlarged")
	assert.Equal(t, float32(16), numbers(t, small[0])[0])
	assert.Zero(t, numbers(t, small[0])[1])
	_, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromUint8(nil, 3, 0, 4)}})
	assert.ErrorContains(t, err, "has no pixels")
}

func TestChannelsAreOneNumberOrThree(t *testing.T) {
	for _, bad := range []any{"x", []any{1.0, 2.0}, []any{}, []any{1.0, "x", 2.0}, math.Inf(1)} {
		_, err := Builtin().Signature(pipelines.Module{Name: "m", Function: "letterbox", Parameters: map[string]any{"width": 1.0, "height": 1.0, "mean": bad}})
		assert.ErrorContains(t, err, `parameter "mean" must be a number or three`)
	}
	_, err := Builtin().Signature(pipelines.Module{Name: "m", Function: "letterbox", Parameters: map[string]any{"width": 1.0, "height": 1.0, "deviation": 0.0}})
	assert.ErrorContains(t, err, `parameter "deviation"`)
}

// TestBoxesComeBack draws rectangles at any angle into a map and finds them.
func TestBoxesComeBack(t *testing.T) {
	in := prepared(t, "text_boxes", map[string]any{"grow": 0.0})
	rapid.Check(t, func(r *rapid.T) {
		angle := rapid.Float64Range(-0.6, 0.6).Draw(r, "angle")
		half, high := rapid.Float64Range(20, 50).Draw(r, "half"), rapid.Float64Range(5, 10).Draw(r, "high")
		u := point{math.Cos(angle), math.Sin(angle)}
		middle := point{64.3, 61.7}
		m := blank(1, 128, 128)
		for y := range 128 {
			for x := range 128 {
				d := point{float64(x) + 0.5, float64(y) + 0.5}.minus(middle)
				if math.Abs(d.dot(u)) < half && math.Abs(d.dot(u.across())) < high {
					put(m.Data, y*128+x, 0.9)
				}
			}
		}
		scale := wire.FromFloat32([]float32{0.5})
		out := called(r, in, m, scale.Reshape())
		require.Equal(r, []int64{1, 8}, out[0].Shape)
		q, _ := readQuad(out[0], 0)
		const off = 2 * 2 // a pixel or two of the map, at scale 0.5
		assert.InDelta(r, 2*middle.x, q.middle().x, off)
		assert.InDelta(r, 2*middle.y, q.middle().y, off)
		assert.InDelta(r, 4*half, q.along().length(), 2*off)
		assert.InDelta(r, 4*high, q.height(), 2*off)
		assert.InDelta(r, angle, math.Atan2(q.along().y, q.along().x), 0.12)
		assert.InDelta(r, 0.9, numbers(r, out[1])[0], 1e-5)
	})
}

func TestBoxesOfNothing(t *testing.T) {
	in := prepared(t, "text_boxes", nil)
	one := wire.FromFloat32([]float32{1}).Reshape()
	out := called(t, in, blank(1, 8, 8), one)
	assert.Equal(t, []int64{0, 8}, out[0].Shape)
	nan := blank(1, 8, 8)
	for i := range 64 {
		put(nan.Data, i, float32(math.NaN()))
	}
	assert.Equal(t, []int64{0, 8}, called(t, in, nan, one)[0].Shape)
	_, err := in.Run(t.Context(), [][]wire.Tensor{{blank(1, 8, 8), blank()}})
	assert.ErrorContains(t, err, "the scale is 0")
}

func box4(x, y, w, h float64) quad {
	return quad{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
}

func TestReadingOrder(t *testing.T) {
	lines := []quad{box4(10, 100, 50, 10), box4(80, 12, 50, 10), box4(10, 10, 50, 10), box4(10, 50, 100, 10)}
	assert.Equal(t, []int{2, 1, 3, 0}, readingOrder(lines))
	for i := range lines {
		lines[i] = lines[i].turned()
	}
	assert.Equal(t, []int{0, 3, 1, 2}, readingOrder(lines), "upside down")
	assert.Empty(t, readingOrder(nil))
}

func TestATallBoxRunsDown(t *testing.T) {
	q := box4(10, 10, 8, 60).oriented()
	assert.Equal(t, point{18, 10}, q[0])
	assert.InDelta(t, 60, q.along().y, 1e-9)
}

func TestTurnQuads(t *testing.T) {
	in := prepared(t, "turn_quads", nil)
	all := []quad{box4(10, 10, 50, 10), box4(10, 50, 50, 10)}
	out := called(t, in, quadTensor(all), wire.FromFloat32([]float32{0.01, 0.99, 0.05, 0.95}, 2, 2))
	first, _ := readQuad(out[0], 0)
	assert.Equal(t, all[1].turned(), first, "the lowest line of a page that is upside down comes first")
	_, err := in.Run(t.Context(), [][]wire.Tensor{{quadTensor(all), blank(1, 2)}})
	assert.ErrorContains(t, err, "2 quads and 1 scores")
}

func TestLinesAreCutLevel(t *testing.T) {
	in := prepared(t, "text_lines", map[string]any{"width": 40.0, "height": 10.0})
	page := blank(3, 50, 100)
	for y := range 50 {
		for x := range 100 {
			put(page.Data, y*100+x, float32(x)) // red rises to the right
			put(page.Data, (50+y)*100+x, float32(y))
		}
	}
	upright := box4(20, 10, 30, 10)
	out := called(t, in, page, quadTensor([]quad{upright, upright.turned(), box4(0, 0, 100, 10)}))
	assert.Equal(t, []float32{30, 30, 40}, numbers(t, out[1]), "the third is squeezed")
	red := numbers(t, out[0])
	assert.InDelta(t, 20, red[0], 1e-3)
	assert.InDelta(t, 49, red[29], 1e-3)
	assert.Zero(t, red[30])
	turned := red[3*400:]
	assert.InDelta(t, 49, turned[0], 1e-3)
	assert.InDelta(t, 19, turned[400], 1e-3, "its first row is the page's last")
	_, err := in.Run(t.Context(), [][]wire.Tensor{{page, wire.FromFloat32(slices.Repeat([]float32{float32(math.NaN())}, 8), 1, 8)}})
	assert.ErrorContains(t, err, "not finite")
	assert.Equal(t, []int64{0, 3, 10, 40}, called(t, in, page, blank(0, 8))[0].Shape)
}

func TestCTCText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.txt")
	require.NoError(t, os.WriteFile(path, []byte("a\nb\n"), 0o600))
	steps := func(classes ...int) wire.Tensor {
		s := blank(int64(len(classes)), 4)
		for i, c := range classes {
			for k := range 4 {
				put(s.Data, 4*i+k, 0.05)
			}
			put(s.Data, 4*i+c, 0.8)
		}
		return s
	}
	in := prepared(t, "ctc_text", map[string]any{"dictionary_file": path})
	for want, classes := range map[string][]int{
		"": {0, 0}, "ab": {1, 1, 0, 2}, "aa": {1, 0, 1, 1}, "a b": {0, 1, 3, 3, 2}, "b": {3, 2, 3},
	} {
		out := called(t, in, steps(classes...))
		text, err := out[0].Strings()
		require.NoError(t, err)
		assert.Equal(t, []string{want}, text)
		if want != "" {
			assert.InDelta(t, 0.8, numbers(t, out[1])[0], 1e-6)
		}
	}
	shy := prepared(t, "ctc_text", map[string]any{"dictionary_file": path, "space": 0.04})
	text, err := called(t, shy, steps(1, 0, 2, 0))[0].Strings()
	require.NoError(t, err)
	assert.Equal(t, []string{"a b"}, text)
	_, err = in.Run(t.Context(), [][]wire.Tensor{{blank(2, 7)}})
	assert.ErrorContains(t, err, "7 classes do not fit the 2 letters")
	_, err = Builtin().Signature(pipelines.Module{Name: "m", Function: "ctc_text", Parameters: map[string]any{"dictionary_file": "/does/not/exist"}})
	assert.ErrorContains(t, err, "cannot be read")
	_, err = Builtin().Signature(pipelines.Module{Name: "m", Function: "ctc_text"})
	assert.ErrorContains(t, err, `"dictionary_file" is missing`)
}

// TestSamplesFit holds the inputs to measure with to the signatures.
func TestSamplesFit(t *testing.T) {
	size := map[string]any{"width": 32.0, "height": 16.0}
	for function, parameters := range map[string]map[string]any{"letterbox": size, "text_boxes": nil, "text_lines": size, "turn_quads": nil} {
		in := prepared(t, function, parameters)
		shapes := [][]int64{{3, 32, 32}, {5, 8}}
		switch function {
		case "turn_quads":
			shapes = [][]int64{{14, 8}, {4, 2}} // as many of each as there are lines
		case "text_boxes":
			shapes = [][]int64{{1, 32, 32}, {}}
		}
		inputs := in.(executors.Sampler).Sample(shapes, rand.New(rand.NewPCG(1, 1)))
		require.NoError(t, executors.Check(in.Signature().Inputs, inputs), function)
		assert.NotEmpty(t, called(t, in, inputs...)[0].Data, function)
	}
}
