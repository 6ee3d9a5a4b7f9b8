package hcl

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// TestWhatAModelSaysOfItsOutputs is told where an output is used, and once.
func TestWhatAModelSaysOfItsOutputs(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"m.onnx", "n.onnx"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600))
	}
	port := func(name string) pipelines.Port {
		return pipelines.Port{Name: name, Datatype: "FP32", Shape: []int64{-1}}
	}
	signatures := func(m pipelines.Module) (pipelines.Signature, error) {
		sig := pipelines.Signature{
			Inputs: []pipelines.Port{port("x")}, Outputs: []pipelines.Port{port("y"), port("rows")},
			Unusable: map[string]string{"maps": "is no tensor; export the model anew"}, Doubts: map[string]string{"rows": "has 1 rows"},
		}
		if m.Name == "n" {
			sig.Unchecked = "onnxruntime will run this; this machine cannot check it"
		}
		return sig, nil
	}
	for name, c := range map[string]struct {
		shape, attributes, outputs string
		want                       []string
	}{
		"fine":           {"[4]", "", `output "y" { value = module.m.y }`, nil},
		"no tensor":      {"[4]", "", `output "y" { value = module.m.maps }`, []string{`Output "maps" of module "m" is no tensor; export the model anew.`}},
		"rows":           {"[4]", "", "output \"y\" { value = module.m.rows }\n output \"z\" { value = module.m.rows }", []string{`Output "rows" of module "m" has 1 rows. If that is so`}},
		"shape":          {"[-1]", "", `output "y" { value = module.m.y }`, []string{`The size of a typical "x" is not declared, so "m" is measured and warmed up with [4].`}},
		"shape and more": {"[-1, 3, -1]", "", `output "y" { value = module.m.y }`, []string{"with [4 3 32]", "Shapes differ"}},
		"typical":        {"[-1]", "typical = { x = [8] }", `output "y" { value = module.m.y }`, nil},
		"another machine": {"[4]", "", `module "n" {
			model  = "n.onnx"
			inputs = { x = module.m.y }
		}
		output "y" { value = module.n.y }`, []string{"onnxruntime will run this; this machine cannot check it."}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder, "p.hcl")
			require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
				hardware "cpu" { price = 1 }
				pipeline "p" {
					slo  = "1s"
					rate = 1
					input "x" {
						datatype = "FP32"
						shape    = %s
					}
					module "m" {
						model  = "m.onnx"
						inputs = { x = input.x }
						%s
					}
					%s
				}`, c.shape, c.attributes, c.outputs), 0o600))
			config, diags := Load(LoadOptions{}, path)
			require.Empty(t, diags)
			var found string
			for _, f := range Findings(config.Validate(signatures)) {
				found += f.String() + "\n"
				require.NotZero(t, f.Line)
			}
			if c.want == nil {
				require.Empty(t, found)
			}
			for _, want := range c.want {
				require.Contains(t, found, want)
			}
		})
	}
}
