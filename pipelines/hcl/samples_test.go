package hcl

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
)

// pages is a folder with a declaration of an input, and a module fed from it.
func pages(t *testing.T, input, module string) string {
	dir := t.TempDir()
	var picture, photo bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 48, 64))))
	require.NoError(t, jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 32, 16)), nil))
	for name, content := range map[string]string{
		"page.png": picture.String(), "page.jpg": photo.String(), "broken.png": "a letter",
		"page.json": `{"datatype": "FP32", "shape": [3, 5, 7], "data": []}`, "flat.json": `[1, 2]`,
		"raw.bin":  strings.Repeat("x", 4*3*10*6),
		"page.hcl": "hardware \"cpu\" {\n  price = 1\n}\n\npipeline \"p\" {\n  slo  = \"1s\"\n  rate = 1\n\n  input \"page\" {\n    " + input + "\n  }\n\n  module \"find\" {\n    function = \"f\"\n    inputs   = { image = input.page }\n    " + module + "\n  }\n\n  output \"o\" {\n    value = module.find.o\n  }\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

func TestTypicalShapes(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		want  []int64
	}{
		"stated":               {`shape = [3, -1, -1]` + "\n" + `datatype = "FP32"` + "\n" + `typical = [3, 640, 480]`, []int64{3, 640, 480}},
		"of a picture":         {`shape = [3, -1, -1]` + "\n" + `datatype = "FP32"` + "\n" + `sample = "page.png"`, []int64{3, 64, 48}},
		"of a photo":           {`shape = [3, -1, -1]` + "\n" + `datatype = "UINT8"` + "\n" + `sample = "page.jpg"`, []int64{3, 16, 32}},
		"of JSON":              {`shape = [3, -1, -1]` + "\n" + `datatype = "FP32"` + "\n" + `sample = "page.json"`, []int64{3, 5, 7}},
		"of raw elements":      {`shape = [3, -1, 6]` + "\n" + `datatype = "FP32"` + "\n" + `sample = "raw.bin"`, []int64{3, 10, 6}},
		"of a picture's bytes": {`shape = [-1]` + "\n" + `datatype = "UINT8"` + "\n" + `sample = "broken.png"`, []int64{8}},
		"of none":              {`shape = [3, -1, -1]` + "\n" + `datatype = "FP32"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := pages(t, c.input, `typical = { image = [3, 320, 240] }`)
			config, diags := Load(LoadOptions{}, dir)
			diags = append(diags, config.Validate(nil)...)
			require.False(t, diags.HasErrors(), "%v", diags)
			p := config.Document.Pipelines[0]
			assert.Equal(t, c.want, p.Inputs[0].Typical)
			assert.Equal(t, map[string][]int64{"image": {3, 320, 240}}, p.Modules[0].Typical)
			again, diags := Parse(filepath.Join(dir, "page.hcl"), HCL(config.Document))
			require.False(t, diags.HasErrors(), "%v", diags)
			assert.Equal(t, config.Document, again.Document)
		})
	}
}

func TestUnusableTypicalShapes(t *testing.T) {
	const open = `shape = [3, -1, -1]` + "\n    " + `datatype = "FP32"` + "\n    "
	known := func(pipelines.Module) (pipelines.Signature, error) {
		return pipelines.Signature{Inputs: []pipelines.Port{{Name: "image", Datatype: "FP32", Shape: []int64{3, -1, -1}}}, Outputs: []pipelines.Port{{Name: "o", Datatype: "FP32", Shape: []int64{1}}}}, nil
	}
	for name, c := range map[string]struct{ input, module, at, want string }{
		"another rank":         {open + `typical = [640, 480]`, "", ":12:15", "the rank is 2, not 3"},
		"another dimension":    {open + `typical = [1, 640, 480]`, "", ":12:15", "dimension 1 is 3, not 1"},
		"open":                 {open + `typical = [3, -1, 480]`, "", ":12:15", "every dimension is a positive number"},
		"endless":              {open + `typical = [3, 1000000, 1000000]`, "", ":12:15", "more than 268435456 elements"},
		"no numbers":           {open + `typical = "large"`, "", ":12:15", "list of whole numbers"},
		"two":                  {open + `typical = [3, 640, 480]` + "\n    " + `sample = "page.png"`, "", ":13:14", "give sample or typical"},
		"no file":              {open + `sample = "pages.png"`, "", ":12:14", "no such file"},
		"no picture":           {open + `sample = "broken.png"`, "", ":12:14", "is no picture"},
		"no shape":             {open + `sample = "flat.json"`, "", ":12:14", "flat.json states no shape; write it as"},
		"no way to tell":       {open + `sample = "raw.bin"`, "", ":12:14", "more than one dimension varies"},
		"a picture of another": {`shape = [1, -1, -1]` + "\n    " + `datatype = "FP32"` + "\n    " + `sample = "page.png"`, "", ":12:14", "dimension 1 is 1, not 3"},
		"bytes left over":      {`shape = [7, -1]` + "\n    " + `datatype = "FP32"` + "\n    " + `sample = "raw.bin"`, "", ":12:14", "720 bytes, which is no FP32 of shape [7 -1]"},
		"texts":                {`shape = [-1]` + "\n    " + `datatype = "BYTES"` + "\n    " + `sample = "raw.bin"`, "", ":12:14", "write JSON"},
		"no such input":        {open, `typical = { imago = [3, 640, 480] }`, ":18:15", `Did you mean "image"?`},
		"the model's rank":     {open, `typical = { image = [640, 480] }`, ":18:15", "the rank is 2, not 3"},
		"halves":               {open, `typical = { image = [3, 0.5, 480] }`, ":18:15", "whole numbers"},
		"no object":            {open, `typical = [3, 640, 480]`, ":18:15", "an object with a shape for each input"},
	} {
		t.Run(name, func(t *testing.T) {
			config, diags := Load(LoadOptions{}, pages(t, c.input, c.module))
			diags = append(diags, config.Validate(known)...)
			require.True(t, diags.HasErrors())
			var out bytes.Buffer
			require.NoError(t, WriteDiagnostics(&out, config, diags, false))
			text := strings.Join(strings.Fields(out.String()), " ")
			assert.Contains(t, text, c.want)
			place := ""
			for _, d := range diags {
				place += strings.Replace(d.Error(), ",", ":", 1)
			}
			assert.Contains(t, place, "page.hcl"+c.at)
		})
	}
}

func TestTypicalShapesInGo(t *testing.T) {
	dir := pages(t, "", "")
	make := func(change func(*build.Builder)) (pipelines.Pipeline, error) {
		b := build.New("p").SLO(time.Second).Rate(1).Input("page", "FP32", 3, -1, -1)
		change(b)
		return b.Module(build.Step("find", "f").In("image", build.FromInput("page")).Typical("image", 3, 8, 8)).Output("o", build.From("find", "o")).Build()
	}
	p, err := make(func(b *build.Builder) { b.Typical("page", 3, 640, 480) })
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 640, 480}, p.Inputs[0].Typical)
	p, err = make(func(b *build.Builder) { b.Sample("page", filepath.Join(dir, "page.png")) })
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 64, 48}, p.Inputs[0].Typical)
	_, err = make(func(b *build.Builder) { b.Sample("page", filepath.Join(dir, "broken.png")) })
	require.ErrorContains(t, err, "is no picture")
	_, err = make(func(b *build.Builder) { b.Typical("page", 640, 480) })
	require.ErrorContains(t, err, "the rank is 2, not 3")
	_, err = make(func(b *build.Builder) { b.Typical("side", 1) })
	require.ErrorContains(t, err, `no input "side"`)
}
