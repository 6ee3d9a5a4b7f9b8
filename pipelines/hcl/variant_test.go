package hcl

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const (
	variedHead = `hardware "gpu" { price = 1 }
pipeline "p" {
  slo = "1s"
  rate = 1
`
	variedTail = `
  input "x" {
    datatype = "FP32"
    shape = [4]
  }
  output "y" { value = module.m.y }
}
`
	points = "hardware,batch,duration_ms\ngpu,1,10\n"
)

// parseVaried parses a pipeline with that floor and module; line 5 is the floor's, and 6 the module's first.
func parseVaried(t *testing.T, floor, module string) (*Config, []Finding) {
	dir := t.TempDir()
	for _, name := range []string{"own.csv", "small.csv"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(points), 0o600))
	}
	for _, name := range []string{"own.onnx", "small.onnx"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("a network"), 0o600))
	}
	c, diags := Parse(filepath.Join(dir, "a.hcl"), []byte(variedHead+floor+"\n"+module+variedTail))
	same := pipelines.Signature{Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{4}}}, Outputs: []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{2}}}}
	other := same
	other.Outputs = []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{1000}}}
	diags = append(diags, c.Validate(func(m pipelines.Module) (pipelines.Signature, error) {
		if filepath.Base(m.Model) == "small.onnx" {
			return other, nil
		}
		return same, nil
	})...)
	return c, Findings(diags)
}

const variedModule = `module "m" {
profile = "own.csv"
accuracy = 0.8
inputs = { x = input.x }
variant "small" {
profile = "small.csv"
accuracy = 0.7
engine = "emulated"
}
}
`

func TestVariantBlock(t *testing.T) {
	c, findings := parseVaried(t, "accuracy = 0.75", variedModule)
	require.Empty(t, findings)
	p := c.Document.Pipelines[0]
	assert.Equal(t, 0.75, p.Accuracy)
	m := p.Modules[0]
	assert.Equal(t, 0.8, m.Accuracy)
	require.Len(t, m.Variants, 1)
	assert.Equal(t, "small", m.Variants[0].Name)
	assert.Equal(t, 0.7, m.Variants[0].Accuracy)
	assert.Equal(t, 10*time.Millisecond, m.Variants[0].Profile.Points[0].Duration)

	as := m.As("small")
	assert.Equal(t, "emulated", as.Engine)
	assert.Equal(t, m, as.As(""), "a choice can be taken back")

	printed := HCL(c.Document)
	again, diags := Parse("/b.hcl", printed)
	require.Empty(t, diags, string(printed))
	assert.Equal(t, c.Document, again.Document, string(printed))
}

func TestVariantFindings(t *testing.T) {
	for name, test := range map[string]struct {
		floor, module string
		line, column  int
		summary       string
	}{
		"a floor above 1":          {"accuracy = 1.2", variedModule, 5, 12, "Invalid accuracy"},
		"a floor that none meets":  {"accuracy = 0.9", variedModule, 5, 12, "Accuracy cannot be met"},
		"an accuracy above 1":      {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 76\ninputs = { x = input.x }\n}", 8, 12, "Invalid accuracy"},
		"a negative accuracy":      {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"small\" {\nprofile = \"small.csv\"\naccuracy = -0.1\n}\n}", 12, 12, "Invalid accuracy"},
		"no accuracy":              {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"small\" {\nprofile = \"small.csv\"\n}\n}", 10, 17, "Missing required argument"},
		"no accuracy of its own":   {"", "module \"m\" {\nprofile = \"own.csv\"\ninputs = { x = input.x }\nvariant \"small\" {\nprofile = \"small.csv\"\naccuracy = 0.7\n}\n}", 6, 1, "Accuracy missing"},
		"no profile":               {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"small\" {\nmodel = \"own.onnx\"\naccuracy = 0.7\n}\n}", 10, 1, "Variant without a profile"},
		"a profile that is absent": {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"small\" {\nprofile = \"none.csv\"\naccuracy = 0.7\n}\n}", 11, 11, "Missing profile"},
		"another signature":        {"", "module \"m\" {\nmodel = \"own.onnx\"\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"small\" {\nmodel = \"small.onnx\"\nprofile = \"small.csv\"\naccuracy = 0.7\n}\n}", 12, 9, "Another signature"},
		"declared twice":           {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"a\" {\nprofile = \"small.csv\"\naccuracy = 0.7\n}\nvariant \"a\" {\nprofile = \"small.csv\"\naccuracy = 0.7\n}\n}", 14, 1, "Declared twice"},
		"inputs of a variant":      {"", "module \"m\" {\nprofile = \"own.csv\"\naccuracy = 0.8\ninputs = { x = input.x }\nvariant \"a\" {\nprofile = \"small.csv\"\naccuracy = 0.7\ninputs = { x = input.x }\n}\n}", 13, 1, "Unsupported argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := parseVaried(t, test.floor, test.module)
			for _, f := range findings {
				if f.Summary == test.summary {
					assert.Equal(t, [2]int{test.line, test.column}, [2]int{f.Line, f.Column}, f.String())
					return
				}
			}
			assert.Fail(t, "not found", "%s: %v", test.summary, findings)
		})
	}
}
