package steps

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

type params = map[string]any

// load makes an instance of a built-in function.
func load(t testing.TB, function string, p params) executors.Instance {
	t.Helper()
	i, err := New(Builtin()).Load(context.Background(), executors.Model{
		Module: pipelines.Module{Name: "m", Function: function, Parameters: p},
	})
	require.NoError(t, err)
	return i
}

// call runs one request and checks the answer against the signature.
func call(t testing.TB, i executors.Instance, inputs ...wire.Tensor) []wire.Tensor {
	t.Helper()
	require.NoError(t, executors.Check(i.Signature().Inputs, inputs))
	answers, err := i.Run(context.Background(), [][]wire.Tensor{inputs})
	require.NoError(t, err)
	require.Len(t, answers, 1)
	require.NoError(t, executors.Check(i.Signature().Outputs, answers[0]))
	return answers[0]
}

// refuses checks that the request fails as invalid.
func refuses(t testing.TB, i executors.Instance, says string, inputs ...wire.Tensor) {
	t.Helper()
	_, err := i.Run(context.Background(), [][]wire.Tensor{inputs})
	require.ErrorIs(t, err, wire.ErrInvalid)
	require.ErrorContains(t, err, says)
}

func floats(t testing.TB, x wire.Tensor) []float32 {
	t.Helper()
	f, err := x.Float32s()
	require.NoError(t, err)
	return f
}

func TestDeclarationsAreChecked(t *testing.T) {
	for _, c := range []struct {
		function string
		given    params
		says     string
	}{
		{"cropp", nil, `module "m": there is no function "cropp"; did you mean "crop"?`},
		{"zzzzzzzzzzzz", nil, "; there are: argmax_label, concat, crop, ctc_text, decode_image, identity, letterbox, normalize, resize, softmax, text_boxes, text_lines, threshold_boxes, top_k, turn_quads"},
		{"", nil, "there is no function"},
		{"threshold_boxes", params{"stride": 8.0, "treshold": 0.5}, `there is no parameter "treshold"; did you mean "threshold"?`},
		{"threshold_boxes", params{}, `parameter "stride" is missing`},
		{"threshold_boxes", params{"stride": 0.0}, `parameter "stride" must be between 0.001 and 1e+06, not 0`},
		{"threshold_boxes", params{"stride": "8"}, `parameter "stride" must be a number, not "8"`},
		{"threshold_boxes", params{"stride": 8.0, "max": 1.5}, `parameter "max" must be a whole number, not 1.5`},
		{"threshold_boxes", params{"stride": 8.0, "score": "odds"}, `must be one of logit, probability, not "odds"`},
		{"crop", params{"width": 8.0}, `parameter "height" is missing`},
		{"crop", params{"width": 8.0, "height": 1e9}, `parameter "height" must be between 1 and 4096`},
		{"resize", params{"width": true, "height": 8.0}, `parameter "width" must be a number, not true`},
		{"argmax_label", nil, `parameter "labels" is missing`},
		{"argmax_label", params{"labels": []any{}}, "at least one label"},
		{"argmax_label", params{"labels": []any{"a", 2.0}}, "element 2 is 2"},
		{"argmax_label", params{"labels": "a"}, `must be a list of strings, not "a"`},
		{"identity", params{"x": 1.0}, `there is no parameter "x"; there are none`},
	} {
		m := pipelines.Module{Name: "m", Function: c.function, Parameters: c.given}
		_, err := Builtin().Signature(m)
		require.ErrorContains(t, err, c.says)
		_, err = New(Builtin()).Load(t.Context(), executors.Model{Module: m})
		require.ErrorContains(t, err, c.says)
	}
}

func TestAllFindingsAreReportedAtOnce(t *testing.T) {
	_, err := Builtin().Signature(pipelines.Module{Name: "m", Function: "crop", Parameters: params{"width": "x", "margin": 99.0, "colour": 1.0}})
	for _, says := range []string{"width", "margin", "height", "colour"} {
		require.ErrorContains(t, err, says)
	}
}

func TestRegister(t *testing.T) {
	r := Builtin()
	double := Plain(pipelines.Signature{Inputs: []pipelines.Port{fp32("x")}, Outputs: []pipelines.Port{fp32("y")}},
		func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			out := blank()
			put(out.Data, 0, 2*at(inputs[0].Data, 0))
			return []wire.Tensor{out}, nil
		})
	require.NoError(t, r.Register("double", double))
	require.ErrorContains(t, r.Register("double", double), `"double" is registered already`)
	require.ErrorContains(t, r.Register("crop", double), "registered already")
	require.ErrorContains(t, r.Register("", double), "needs a name")
	require.ErrorContains(t, r.Register("empty", Function{}), "no Prepare")
	require.NoError(t, new(Registry).Register("double", double))
	_, other := Builtin().Lookup("double")
	require.False(t, other, "registries are independent values")

	i, err := New(r).Load(t.Context(), executors.Model{Module: pipelines.Module{Function: "double"}})
	require.NoError(t, err)
	require.Equal(t, []float32{42}, floats(t, call(t, i, wire.FromFloat32([]float32{21}).Reshape())[0]))
}

func TestUserFunctionsThatMisbehave(t *testing.T) {
	r := new(Registry)
	var fail func() error
	require.NoError(t, r.Register("f", Plain(pipelines.Signature{}, func(context.Context, []wire.Tensor) ([]wire.Tensor, error) {
		return nil, fail()
	})))
	require.NoError(t, r.Register("nothing", Function{Prepare: func(*Parameters) (Step, error) { return Step{}, nil }}))
	require.NoError(t, r.Register("refuses", Function{Prepare: func(*Parameters) (Step, error) { return Step{}, errors.New("not today") }}))
	i, err := New(r).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Function: "f"}})
	require.NoError(t, err)
	run := func() error {
		_, err := i.Run(t.Context(), make([][]wire.Tensor, 2))
		return err
	}

	fail = func() error { panic("index out of range") }
	require.ErrorIs(t, run(), wire.ErrInternal)
	require.ErrorContains(t, run(), `function "f" panicked: index out of range`)
	fail = func() error { return errors.New("blurred") }
	require.ErrorIs(t, run(), wire.ErrInvalid)
	require.ErrorContains(t, run(), `at m: function "f": blurred`)
	fail = func() error { return wire.Errorf(wire.CodeOverloaded, "m", "later") }
	require.ErrorIs(t, run(), wire.ErrOverloaded)
	fail = func() error { return nil }
	require.NoError(t, run(), "an instance survives")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = i.Run(ctx, make([][]wire.Tensor, 2))
	require.ErrorIs(t, err, wire.ErrCanceled)

	_, err = r.Signature(pipelines.Module{Function: "nothing"})
	require.ErrorContains(t, err, "nothing to call")
	_, err = r.Signature(pipelines.Module{Function: "refuses"})
	require.ErrorContains(t, err, "not today")
}

func TestSamplesAgreeWithTheSignature(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		function string
		given    params
		shapes   [][]int64
	}{
		"crop":  {"crop", params{"width": 4.0, "height": 4.0}, [][]int64{{3, 8, 8}, {5, 4}}},
		"bytes": {"crop", params{"width": 4.0, "height": 4.0, "datatype": "UINT8"}, [][]int64{{3, 8, 8}, {5, 4}}},
		"chw":   {"threshold_boxes", params{"stride": 8.0}, [][]int64{{5, 40, 40}}},
		"hwc":   {"threshold_boxes", params{"stride": 8.0, "layout": "hwc", "score": "probability"}, [][]int64{{40, 40, 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			i := load(t, c.function, c.given)
			answer := call(t, i, i.(executors.Sampler).Sample(c.shapes, rng)...)
			require.Greater(t, answer[0].Shape[0], int64(4), "there is something to do")
		})
	}
	_, samples := load(t, "identity", nil).(executors.Sampler)
	require.False(t, samples)
}

func TestIdentity(t *testing.T) {
	in := wire.FromStrings([]string{"a", ""}, 2)
	require.Equal(t, []wire.Tensor{in}, call(t, load(t, "identity", nil), in))
}

func TestEngineDescribesItself(t *testing.T) {
	e := New(Builtin())
	require.Equal(t, "function", e.Name())
	require.NotEmpty(t, e.Version())
	i := load(t, "identity", nil)
	require.Zero(t, i.Memory())
	require.NoError(t, i.Close())
	require.NoError(t, i.Close())
}
