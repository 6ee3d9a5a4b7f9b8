package hcl

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
)

func TestConstants(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		port  pipelines.Port
		shape []int64
		err   string
	}{
		{"a scalar", 16000.0, pipelines.Port{Datatype: "INT64", Shape: []int64{}}, []int64{}, ""},
		{"one element", 16000.0, pipelines.Port{Datatype: "INT64", Shape: []int64{1}}, []int64{1}, ""},
		{"one element of an open shape", []any{0.5}, pipelines.Port{Datatype: "FP16", Shape: []int64{-1, 1}}, []int64{1, 1}, ""},
		{"a vector", []any{1.0, 2.0}, pipelines.Port{Datatype: "UINT8", Shape: []int64{-1}}, []int64{2}, ""},
		{"a matrix", []any{[]any{true}, []any{false}}, pipelines.Port{Datatype: "BOOL", Shape: []int64{2, 1}}, []int64{2, 1}, ""},
		{"a text", "car", pipelines.Port{Datatype: "BYTES", Shape: []int64{}}, []int64{}, ""},
		{"any port", []any{1.0}, pipelines.Port{}, []int64{1}, ""},
		{"a scalar for many", 1.0, pipelines.Port{Datatype: "FP32", Shape: []int64{3}}, nil, "shape [] where [3] is taken"},
		{"another shape", []any{1.0, 2.0}, pipelines.Port{Datatype: "FP32", Shape: []int64{3}}, nil, "shape [2] where [3] is taken"},
		{"ragged", []any{[]any{1.0}, []any{1.0, 2.0}}, pipelines.Port{}, nil, "differ in length"},
		{"half a number", 1.5, pipelines.Port{Datatype: "INT32", Shape: []int64{}}, nil, "1.5, which is no INT32"},
		{"too large", 256.0, pipelines.Port{Datatype: "UINT8", Shape: []int64{}}, nil, "256, which is no UINT8"},
		{"too small", -1.0, pipelines.Port{Datatype: "UINT64", Shape: []int64{}}, nil, "-1, which is no UINT64"},
		{"a text for a number", "1", pipelines.Port{Datatype: "FP32", Shape: []int64{}}, nil, "1 where FP32 is taken"},
		{"mixed", []any{1.0, "a"}, pipelines.Port{}, nil, "1 where BYTES is taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := pipelines.ConstantAt(c.value, c.port)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.shape, got.Shape)
		})
	}
}

const voice = `variable "rate" { default = 8000 }
hardware "cpu" { price = 1 }
pipeline "voice" {
  slo = "100ms"
  rate = 1
  input "audio" {
    datatype = "FP32"
    shape = [512]
  }
  module "vad" {
    profile = "vad.csv"
    inputs = { audio = input.audio, sr = 2 * var.rate, mode = var.rate, words = ["a", "b"] }
    BATCHING
  }
  output "speech" { value = module.vad.output }
}
`

func parseVoice(t *testing.T, batching string, signature pipelines.Signature) (pipelines.Module, []Finding) {
	t.Helper()
	src := []byte(voice)
	for i := range src {
		if string(src[i:i+len("BATCHING")]) == "BATCHING" {
			src = append(src[:i:i], append([]byte(batching), src[i+len("BATCHING"):]...)...)
			break
		}
	}
	c, diags := Parse("/voice.hcl", src)
	diags = append(diags, c.Validate(func(pipelines.Module) (pipelines.Signature, error) { return signature, nil })...)
	require.Len(t, c.Document.Pipelines, 1)
	require.Len(t, c.Document.Pipelines[0].Modules, 1)
	return c.Document.Pipelines[0].Modules[0], Findings(diagsWithout(diags, "Missing profile"))
}

func diagsWithout(all hcl.Diagnostics, summary string) hcl.Diagnostics {
	var kept hcl.Diagnostics
	for _, d := range all {
		if d.Summary != summary {
			kept = append(kept, d)
		}
	}
	return kept
}

var voiceSignature = pipelines.Signature{
	Inputs: []pipelines.Port{
		{Name: "audio", Datatype: "FP32", Shape: []int64{512}}, {Name: "sr", Datatype: "INT64", Shape: []int64{}},
		{Name: "mode", Datatype: "INT64", Shape: []int64{1}}, {Name: "words", Datatype: "BYTES", Shape: []int64{-1}},
	},
	Outputs: []pipelines.Port{{Name: "output", Datatype: "FP32", Shape: []int64{1}}},
}

func TestConstantInputsAreDeclared(t *testing.T) {
	m, findings := parseVoice(t, `batch_axis = { audio = 1, sr = "none" }`, voiceSignature)
	for _, f := range findings {
		assert.NotEqual(t, "error", f.Severity, f)
	}
	assert.Equal(t, []pipelines.Binding{
		{Name: "audio", From: build.FromInput("audio")}, {Name: "sr", Value: 16000.0},
		{Name: "mode", Value: 8000.0}, {Name: "words", Value: []any{"a", "b"}},
	}, m.Inputs)
	assert.Equal(t, map[string]int{"audio": 1, "sr": pipelines.NoBatchAxis}, m.BatchAxis)

	other := voiceSignature
	other.Inputs = append([]pipelines.Port{}, other.Inputs...)
	other.Inputs[1].Datatype = "UINT8"
	_, findings = parseVoice(t, `batch_axis = { sound = 1 }`, other)
	text := ""
	for _, f := range findings {
		text += f.String() + "\n"
	}
	assert.Contains(t, text, `/voice.hcl:12:42: error: Constant`)
	assert.Contains(t, text, `Constant that does not fit: Input "sr" of the model of "vad" takes UINT8 []: the constant holds 16000, which is no UINT8`)
	assert.Contains(t, text, `Unknown name: The model of "vad" has no input or output "sound"`)
}

func TestBatchingIsValidated(t *testing.T) {
	for batching, want := range map[string]string{
		`batching = false`: "",
		`batching = true`:  "",
		`batching = "no"`:  "The value of batching must be true or false",
		"batching = false\nbatch_axis = { audio = 1 }":      "Batch axis without batches",
		"batching = false\nbatches = [1, 2]":                "With batching = false the only batch size is 1",
		"batch_axis = { audio = 1 }\nengine = \"gorgonia\"": `set engine = "onnxruntime"`,
		`batch_axis = { audio = -1 }`:                       `or "none" where it has none`,
		`batch_axis = { audio = 1.5 }`:                      `counted from 0`,
		`batch_axis = 1`:                                    `counted from 0`,
	} {
		t.Run(batching, func(t *testing.T) {
			_, findings := parseVoice(t, batching, voiceSignature)
			text := ""
			for _, f := range findings {
				if f.Severity == "error" {
					text += f.String() + "\n"
				}
			}
			if want == "" {
				assert.Empty(t, text)
				return
			}
			assert.Contains(t, text, want)
		})
	}
}

func TestWhatFeedsAnInput(t *testing.T) {
	for value, want := range map[string]string{
		`"input.x"`:     "Take the quotes off",
		`inptu.x`:       "Refer to an input of the pipeline",
		`{ a = 1 }`:     "or by a constant: a number, string or boolean",
		`null`:          "or by a constant",
		`var.nothing`:   "nothing",
		`[[1], [2, 3]]`: "differ in length",
	} {
		src := `pipeline "p" {
  slo = "1s"
  rate = 1
  input "x" {
    datatype = "FP32"
    shape = [1]
  }
  module "m" { inputs = { x = input.x, y = ` + value + ` } }
}`
		c, diags := Parse("/p.hcl", []byte(src))
		diags = append(diags, c.Validate(nil)...)
		text := ""
		for _, f := range Findings(diags) {
			text += f.String() + "\n"
		}
		assert.Contains(t, text, want, value)
		assert.Contains(t, text, "/p.hcl:8:", value)
	}
}
