package triton

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

var update = flag.Bool("update", false, "write golden files anew")

// repository writes files into a fresh folder, in which the test runs: paths in findings are
// the same everywhere.
func repository(t *testing.T, files map[string]string) string {
	t.Chdir(t.TempDir())
	for name, text := range files {
		path := filepath.Join("models", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return "models"
}

// imported reads and imports, and gives the findings line by line.
func imported(t *testing.T, files map[string]string, sig pipelines.SignatureFunc) (*Imported, []string) {
	r, diags := Read(repository(t, files))
	var out *Imported
	if !diags.HasErrors() {
		x, more := r.Import(Options{Folder: "served", SLO: 200 * time.Millisecond, Rate: 50, Triton: "10.0.0.7:8001", Signatures: sig})
		if diags = append(diags, more...); !diags.HasErrors() {
			out = x
		}
	}
	var lines []string
	for _, f := range hcl.Findings(diags) {
		lines = append(lines, f.String())
	}
	return out, lines
}

const vision = `name: "vision"
platform: "ensemble"
max_batch_size: 8
input [ { name: "PICTURE" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "LABEL" data_type: TYPE_STRING dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "classify"
      model_version: -1
      input_map { key: "image" value: "pixels" }
      output_map { key: "scores:0" value: "scores" }
    },
    {
      model_name: "prepare"
      input_map { key: "RAW" value: "PICTURE" }
      output_map { key: "PIXELS" value: "pixels" }
    },
    {
      model_name: "name"
      input_map { key: "SCORES" value: "scores" }
      output_map { key: "NAME" value: "LABEL" }
    }
  ]
}
`

const classify = `platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] format: FORMAT_NCHW } ]
output [ { name: "scores:0" data_type: TYPE_FP32 dims: [ 10 ] label_filename: "labels.txt" } ]
version_policy: { specific { versions: [ 1, 3 ] } }
instance_group [ { count: 2 kind: KIND_GPU } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 }
model_warmup [ { name: "w" batch_size: 1 inputs { key: "image" value: { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] zero_data: true } } } ]
response_cache { enable: true }
favourite_colour: "green"
`

const prepare = `backend: "python"
max_batch_size: 8
input [ { name: "RAW" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "PIXELS" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
`

const name = `backend: "custom_names"
max_batch_size: 8
input [ { name: "SCORES" data_type: TYPE_FP32 dims: [ 10 ] } ]
output [ { name: "NAME" data_type: TYPE_STRING dims: [ 1 ] } ]
`

// rows is an ensemble whose tensors have rows that a step with batches takes one by one.
const rows = `platform: "ensemble"
input [ { name: "image" data_type: TYPE_FP32 dims: [ 1, 3, 64, 64 ] } ]
output [ { name: "texts" data_type: TYPE_FP32 dims: [ -1, 5 ] }, { name: "best" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [
  { model_name: "find" input_map { key: "image" value: "image" } output_map { key: "crops" value: "crops" } },
  { model_name: "read" input_map { key: "crop" value: "crops" } output_map { key: "text" value: "texts" } },
  { model_name: "pick" input_map { key: "texts" value: "texts" } output_map { key: "best" value: "best" } }
] }
`

func whole() map[string]string {
	return map[string]string{
		"vision/config.pbtxt": vision, "classify/config.pbtxt": classify, "prepare/config.pbtxt": prepare, "name/config.pbtxt": name,
		"classify/1/model.onnx": "", "classify/3/model.onnx": "", "classify/4/model.onnx": "", "prepare/1/model.py": "pass", "name/1/libtriton_names.so": "",
		"rows/config.pbtxt":  rows,
		"find/config.pbtxt":  "backend: \"onnxruntime\"\ninput [ { name: \"image\" data_type: TYPE_FP32 dims: [ 1, 3, 64, 64 ] } ]\noutput [ { name: \"crops\" data_type: TYPE_FP32 dims: [ -1, 3, 8, 8 ] } ]",
		"find/1/model.onnx":  "",
		"read/config.pbtxt":  "backend: \"onnxruntime\"\nmax_batch_size: 16\ninput [ { name: \"crop\" data_type: TYPE_FP32 dims: [ 3, 8, 8 ] } ]\noutput [ { name: \"text\" data_type: TYPE_FP32 dims: [ 5 ] } ]",
		"read/1/model.onnx":  "",
		"pick/config.pbtxt":  "backend: \"onnxruntime\"\ninput [ { name: \"texts\" data_type: TYPE_FP32 dims: [ -1, 5 ] } ]\noutput [ { name: \"best\" data_type: TYPE_FP32 dims: [ 1 ] } ]",
		"pick/1/model.onnx":  "",
		"calls/config.pbtxt": strings.ReplaceAll(prepare, "RAW", "X"),
		"calls/1/model.py":   "r = pb_utils.InferenceRequest(model_name='x')\nr.exec()\n",
		"walk/config.pbtxt": `backend: "onnxruntime"
max_batch_size: 1
input [ { name: "frame" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
sequence_batching {
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
  state [ { input_name: "state" output_name: "state_out" data_type: TYPE_FP32 dims: [ 2 ] } ]
}`,
		"walk/1/model.onnx":   "",
		"often/config.pbtxt":  strings.ReplaceAll(strings.ReplaceAll(prepare, "[ 3, 224, 224 ]", "[ 1 ]"), "input [", "input [ { name: \"seed\" data_type: TYPE_INT32 dims: [ 1 ] optional: true },"),
		"often/1/model.py":    "",
		"talk/config.pbtxt":   strings.ReplaceAll(prepare, "RAW", "T") + "model_transaction_policy { decoupled: true }\n",
		"talk/1/model.py":     "",
		"bare/1/model.onnx":   "",
		"notes/README.md":     "",
		".git/1/model.onnx":   "",
		"a b/config.pbtxt":    strings.ReplaceAll(strings.ReplaceAll(name, "SCORES", "in:0"), "custom_names", "onnxruntime"),
		"a b/2/model.onnx":    "",
		"c d/config.pbtxt":    strings.ReplaceAll(name, "custom_names", "tensorrt"),
		"c d/1/model.plan":    "",
		"vision/1/.gitignore": "",
	}
}

func TestARepository(t *testing.T) {
	golden, err := filepath.Abs("testdata/golden.txt")
	require.NoError(t, err)
	sig := func(m pipelines.Module) (pipelines.Signature, error) {
		p := []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}
		return pipelines.Signature{Inputs: p, Outputs: []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{2}}}}, nil
	}
	out, lines := imported(t, whole(), sig)
	require.NotNil(t, out, strings.Join(lines, "\n"))
	text := strings.Join(lines, "\n") + "\n\n"
	for _, s := range out.Served {
		text += fmt.Sprintf("%+v\n", s)
	}
	text += fmt.Sprintf("left out: %q\n\n%s\nprepare.json:\n%s", out.LeftOut, out.HCL(), out.Files["prepare.json"])
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)

	require.NoError(t, os.MkdirAll("served", 0o755))
	require.NoError(t, os.WriteFile("served/pipelines.hcl", out.HCL(), 0o600))
	c, diags := hcl.Load(hcl.LoadOptions{}, "served")
	require.False(t, diags.HasErrors(), diags)
	for _, d := range c.Validate(nil) {
		require.Contains(t, []string{"Empty model", "No typical shape"}, d.Summary, d)
	}
}

func TestWhatIsBroken(t *testing.T) {
	with := func(changes ...string) map[string]string {
		files := whole()
		for i := 0; i < len(changes); i += 2 {
			if files[changes[i]] = changes[i+1]; changes[i+1] == "-" {
				delete(files, changes[i])
			}
		}
		return files
	}
	circle := func(of, in string) string {
		return fmt.Sprintf("platform: \"ensemble\"\ninput [ { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput [ { name: \"y\" data_type: TYPE_FP32 dims: [ 1 ] } ]\nensemble_scheduling { step [ { model_name: %q input_map { key: \"x\" value: %q } output_map { key: \"y\" value: \"y\" } } ] }", of, in)
	}
	replaced := func(file, from, to string) map[string]string {
		require.Contains(t, whole()[file], from)
		return with(file, strings.Replace(whole()[file], from, to, 1))
	}
	for what, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"text":             {replaced("classify/config.pbtxt", "max_batch_size: 8", "max_batch_size: }"), "models/classify/config.pbtxt:2:17: error: No configuration of a model: It is not protocol buffers as text"},
		"datatype":         {replaced("classify/config.pbtxt", "TYPE_FP32", "FP32"), "models/classify/config.pbtxt:3:36: error: No configuration of a model"},
		"datatype 99":      {replaced("classify/config.pbtxt", "TYPE_FP32", "99"), "models/classify/config.pbtxt:3:25: error: Unknown datatype: \"image\" has the data_type 99; name one of the schema, such as TYPE_FP32."},
		"no datatype":      {replaced("vision/config.pbtxt", "data_type: TYPE_STRING", ""), "models/vision/config.pbtxt:5:1: error: Unknown datatype: \"LABEL\""},
		"control":          {replaced("walk/config.pbtxt", "fp32_false_true: [ 0, 1 ]", "data_type: 99"), "models/walk/config.pbtxt:6:76: error: Unknown datatype: \"START\""},
		"state":            {replaced("walk/config.pbtxt", "data_type: TYPE_FP32 dims: [ 2 ]", "data_type: -1 dims: [ 2 ]"), "models/walk/config.pbtxt:7:58: error: Unknown datatype: \"state\""},
		"file outside":     {with("find/config.pbtxt", whole()["find/config.pbtxt"]+"\ndefault_model_filename: \"../../../../etc/passwd\""), `models/find/config.pbtxt:4:1: error: Path outside the model: "../../../../etc/passwd" is not in models/find/1`},
		"absolute file":    {with("prepare/config.pbtxt", prepare+"default_model_filename: \"/model.py\""), "models/prepare/config.pbtxt:5:1: error: Path outside the model"},
		"library outside":  {with("find/config.pbtxt", whole()["find/config.pbtxt"]+"\nmodel_operations { op_library_filename: [ \"ops.so\", \"../../ops.so\" ] }"), `models/find/config.pbtxt:4:53: error: Path outside the model: The library "../../ops.so" is not in models/find`},
		"given twice":      {replaced("classify/config.pbtxt", "max_batch_size: 8", "max_batch_size: 8 max_batch_size: 8"), "models/classify/config.pbtxt:2:19: error: No configuration"},
		"another name":     {replaced("vision/config.pbtxt", `name: "vision"`, `name: "sight"`), `models/vision/config.pbtxt:1:1: error: Two names: The configuration calls the model "sight", and its folder is "vision"`},
		"platform":         {replaced("classify/config.pbtxt", "onnxruntime_onnx", "onnxruntime"), `models/classify/config.pbtxt:1:1: error: Unknown platform: No backend of Triton has the platform "onnxruntime". It is a backend`},
		"backend":          {replaced("name/config.pbtxt", "custom_names", "onnxruntim"), `models/name/config.pbtxt:1:1: error: Unknown backend: There is no backend "onnxruntim". Did you mean "onnxruntime"?`},
		"no backend":       {replaced("name/config.pbtxt", `backend: "custom_names"`, ""), "models/name/config.pbtxt:1:1: error: No backend: Neither backend nor platform is given"},
		"no version":       {with("prepare/1/model.py", "-"), "models/prepare/config.pbtxt:1:1: error: No version: models/prepare has no numbered folder"},
		"no such version":  {replaced("classify/config.pbtxt", "[ 1, 3 ]", "[ 1, 9 ]"), "models/classify/config.pbtxt:5:30: error: No such version: models/classify has no folder 9; it has 1, 3, 4."},
		"step's version":   {replaced("vision/config.pbtxt", "model_version: -1", "model_version: 7"), "models/vision/config.pbtxt:10:7: error: No such version"},
		"no steps":         {with("rows/config.pbtxt", `platform: "ensemble"`), "models/rows/config.pbtxt:1:1: error: Ensemble without steps"},
		"unknown model":    {replaced("vision/config.pbtxt", `"prepare"`, `"preparo"`), `models/vision/config.pbtxt:15:7: error: Unknown model: There is no model "preparo" in models. Did you mean "prepare"?`},
		"unknown tensor":   {replaced("vision/config.pbtxt", `value: "PICTURE"`, `value: "PICTURES"`), `models/vision/config.pbtxt:16:30: error: Unknown tensor: No input and no step of vision makes "PICTURES". Did you mean "PICTURE"?`},
		"cycle":            {replaced("vision/config.pbtxt", `value: "PICTURE"`, `value: "scores"`), "models/vision/config.pbtxt:11:32: error: Cycle: The steps of vision wait for each other"},
		"cycle of two":     {with("u/config.pbtxt", circle("w", "x"), "w/config.pbtxt", circle("u", "x")), "error: Cycle: The ensemble \"u\" is a step of itself"},
		"unknown input":    {replaced("vision/config.pbtxt", `key: "RAW"`, `key: "ROW"`), `models/vision/config.pbtxt:16:19: error: Unknown input: prepare has no input "ROW". Did you mean "RAW"?`},
		"unknown output":   {replaced("vision/config.pbtxt", `key: "PIXELS"`, `key: "PIXEL"`), "models/vision/config.pbtxt:17:20: error: Unknown output"},
		"input left out":   {replaced("vision/config.pbtxt", `input_map { key: "RAW" value: "PICTURE" }`, ""), "models/vision/config.pbtxt:15:7: error: Input without a tensor: The step prepare needs its input \"RAW\""},
		"made twice":       {replaced("vision/config.pbtxt", `value: "pixels" }`+"\n    },\n    {\n      model_name: \"name\"", `value: "PICTURE" }`+"\n    },\n    {\n      model_name: \"name\""), "models/vision/config.pbtxt:17:34: error: Made twice"},
		"output":           {replaced("vision/config.pbtxt", `value: "LABEL"`, `value: "LABELS"`), `models/vision/config.pbtxt:5:12: error: Nothing makes an output: No step of vision has "LABEL" in its output_map. Did you mean "LABELS"?`},
		"datatypes differ": {replaced("prepare/config.pbtxt", `"PIXELS" data_type: TYPE_FP32`, `"PIXELS" data_type: TYPE_FP16`), "models/vision/config.pbtxt:11:19: error: Datatypes differ"},
		"one model":        {map[string]string{"config.pbtxt": vision}, "It is the folder of one model; name the one around it"},
		"folders between":  {map[string]string{"a/b/config.pbtxt": vision}, "There are models in models/a."},
		"nothing":          {map[string]string{"talk/config.pbtxt": whole()["talk/config.pbtxt"], "talk/1/model.py": ""}, "error: Nothing to serve"},
	} {
		t.Run(what, func(t *testing.T) {
			out, lines := imported(t, c.files, nil)
			assert.Nil(t, out)
			assert.True(t, slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, c.want) }), "%s\nin\n%s", c.want, strings.Join(lines, "\n"))
		})
	}
	t.Run("many modules", func(t *testing.T) {
		files := map[string]string{"e0/config.pbtxt": strings.ReplaceAll(whole()["pick/config.pbtxt"], "texts", "x"), "e0/1/model.onnx": ""}
		tensors := strings.NewReplacer("backend: \"onnxruntime\"", "platform: \"ensemble\"").Replace(files["e0/config.pbtxt"])
		for i := range 40 {
			files[fmt.Sprintf("e%d/config.pbtxt", i+1)] = tensors + strings.ReplaceAll(` ensemble_scheduling { step [
				{ model_name: "eN" input_map { key: "x" value: "x" } output_map { key: "best" value: "y" } },
				{ model_name: "eN" input_map { key: "x" value: "x" } output_map { key: "best" value: "best" } } ] }`, "eN", fmt.Sprint("e", i))
		}
		_, lines := imported(t, files, nil)
		require.Len(t, lines, 2)
		require.Contains(t, lines[1], `models/e1/config.pbtxt:4:7: error: Too many modules: "e40" has more than 1000 steps`)
	})
	t.Run("no UTF-8", func(t *testing.T) {
		if err := os.Mkdir(filepath.Join(t.TempDir(), "a\xff"), 0o755); err != nil {
			t.Skip("names of files are UTF-8 here: ", err)
		}
		_, lines := imported(t, map[string]string{"a\xff/config.pbtxt": prepare, "a\xff/1/model.py": ""}, nil)
		require.Equal(t, []string{`error: Unusable name: The name of the model's folder, "models/a\xff", is not UTF-8; rename it.`}, lines)
	})
	_, diags := Read("nowhere")
	require.ErrorContains(t, diags, "name the folder that holds the folders of models")
}

// TestFilesOfAModel holds that libraries by absolute paths are warned of, and that where code in
// Python calls other models is looked for once.
func TestFilesOfAModel(t *testing.T) {
	files := whole()
	files["find/config.pbtxt"] += "\nmodel_operations { op_library_filename: [ \"/opt/ops.so\" ] }"
	out, lines := imported(t, files, nil)
	require.NotNil(t, out, lines)
	require.Contains(t, lines, "models/find/config.pbtxt:4:20: warning: Different: find: the library /opt/ops.so lies outside the repository; every worker needs it at this path.")

	files = whole()
	files["classify/config.pbtxt"] += "default_model_filename: \"sub/net.onnx\"\n"
	files["vision/config.pbtxt"] = strings.Replace(vision, "model_version: -1", "model_version: 1", 1)
	files["classify/1/sub/net.onnx"], files["classify/3/sub/net.onnx"] = "", ""
	out, lines = imported(t, files, nil)
	require.NotNil(t, out, lines)
	vision := out.Document.Pipelines[slices.IndexFunc(out.Document.Pipelines, func(p pipelines.Pipeline) bool { return p.Name == "vision" })]
	require.Equal(t, "../models/classify/1/sub/net.onnx", vision.Module("classify").Model)
	require.NotContains(t, strings.Join(lines, "\n"), "Missing model")
	delete(files, "classify/1/sub/net.onnx")
	_, lines = imported(t, files, nil)
	require.Contains(t, lines, `models/vision/config.pbtxt:10:7: warning: Missing model: models/classify/1/sub/net.onnx is not there; put it there before "classify" is served.`)

	im := &importer{calls: map[string]*hclv2.Range{}}
	m := &model{path: "models/calls/1/model.py"}
	first := im.callsOthers(m)
	require.Equal(t, 2, first.Start.Line)
	require.NoError(t, os.RemoveAll("models/calls"))
	require.Same(t, first, im.callsOthers(m))
}

// TestRowsOfDifferentSteps holds that what cannot be distinguished is left out and not made up.
func TestRowsOfDifferentSteps(t *testing.T) {
	files := whole()
	files["join/config.pbtxt"] = "backend: \"onnxruntime\"\nmax_batch_size: 4\ninput [ { name: \"a\" data_type: TYPE_FP32 dims: [ 5 ] }, { name: \"b\" data_type: TYPE_FP32 dims: [ 3, 8, 8 ] } ]\noutput [ { name: \"c\" data_type: TYPE_FP32 dims: [ 5 ] } ]"
	files["join/1/model.onnx"] = ""
	files["rows/config.pbtxt"] = strings.Replace(rows, "{ model_name: \"pick\" input_map { key: \"texts\" value: \"texts\" } output_map { key: \"best\" value: \"best\" } }",
		"{ model_name: \"join\" input_map [ { key: \"a\" value: \"texts\" }, { key: \"b\" value: \"crops\" } ] output_map { key: \"c\" value: \"best\" } }", 1)
	out, lines := imported(t, files, nil)
	require.NotNil(t, out, lines)
	require.Contains(t, out.LeftOut, "rows")
	require.Contains(t, strings.Join(lines, "\n"), "models/rows/config.pbtxt:7:5: warning: Left out: join joins rows of a tensor with those that a step has split already")
}

// TestSequences holds that what keeps state between the requests of a sequence becomes a module with
// state in a pipeline with streams, and that what cannot be is reported where it stands.
func TestSequences(t *testing.T) {
	const recurrent = `backend: "onnxruntime"
max_batch_size: 4
input [ { name: "chunk" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "speech" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
sequence_batching {
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } ] }
  ]
  state [ { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_FP32 dims: [ 2, 8 ] } ]
}
`
	around := func(config string) map[string]string {
		return map[string]string{"vad/config.pbtxt": config, "vad/1/model.onnx": "", "vad/1/model.py": "# by ID\nid = request.correlation_id()\n"}
	}
	with := func(from, to string) map[string]string {
		require.Contains(t, recurrent, from)
		return around(strings.Replace(recurrent, from, to, 1))
	}
	python := strings.Replace(recurrent[:strings.Index(recurrent, "  state [")]+"}", "onnxruntime", "python", 1)
	ensemble := around(recurrent)
	ensemble["calls/config.pbtxt"] = `platform: "ensemble"
max_batch_size: 4
input [ { name: "sound" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "speech" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [ { model_name: "vad" input_map { key: "chunk" value: "sound" } output_map { key: "speech" value: "speech" } } ] }`
	rows := maps.Clone(ensemble)
	rows["calls/config.pbtxt"] = strings.NewReplacer("max_batch_size: 4\n", "", "[ 64 ]", "[ -1, 64 ]", "[ 1 ]", "[ -1, 1 ]").Replace(rows["calls/config.pbtxt"])
	id := maps.Clone(ensemble)
	id["vad/config.pbtxt"] = with(`kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ]`, `kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64`)["vad/config.pbtxt"]
	for what, c := range map[string]struct {
		files  map[string]string
		stream pipelines.Stream // rate 50 in all; none where the pipeline is left out or has none
		finds  string
	}{
		"a network":  {around(recurrent), pipelines.Stream{Rate: 6.25, Count: 8}, `vad/config.pbtxt:8:7: warning: Different: vad: "START" is always false`},
		"places":     {around(recurrent), pipelines.Stream{Rate: 6.25, Count: 8}, "vad/config.pbtxt:6:1: warning: Assumed: vad: sequences are streams. As many as the configuration has places for, 8, share the rate"},
		"candidates": {with("sequence_batching {", "sequence_batching {\n  oldest { max_candidate_sequences: 5 }\n  max_sequence_idle_microseconds: 9"), pipelines.Stream{Rate: 5, Count: 10}, "vad/config.pbtxt:8:3: warning: Different: sequence_batching.max_sequence_idle_microseconds: The place of a stream is free after ten seconds"},
		"a step":     {ensemble, pipelines.Stream{Rate: 6.25, Count: 8}, `"START" is always false`},
		"by ID":      {with("CONTROL_SEQUENCE_READY bool_false_true: [ false, true ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64"), pipelines.Stream{Rate: 6.25, Count: 8}, `vad/config.pbtxt:9:7: warning: Different: vad: "READY" is an input of the pipeline, and clients send it`},
		"a file":     {with("dims: [ 2, 8 ]", `dims: [ 2, 8 ] initial_state { name: "i" data_type: TYPE_FP32 dims: [ 2, 8 ] data_file: "begin" }`), pipelines.Stream{Rate: 6.25, Count: 8}, `vad/config.pbtxt:11:165: warning: No counterpart: vad: the state of "INPUT_STATE" is zeros at first, and not begin`},
		"no state":   {with(`state [ { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_FP32 dims: [ 2, 8 ] } ]`, ""), pipelines.Stream{}, "vad/config.pbtxt:6:1: warning: Different: vad: it has no state, so nothing is kept between its requests"},
		"code":       {around(python), pipelines.Stream{Rate: 6.25, Count: 8}, "vad/1/model.py:2:13: warning: No counterpart: vad: what its code keeps by sequence has to be written as sessions"},
		"growing":    {with("dims: [ 2, 8 ]", "dims: [ 2, -1 ]"), pipelines.Stream{}, "vad/config.pbtxt:11:13: warning: Left out: vad: the state of its input INPUT_STATE grows"},
		"a Triton":   {with("onnxruntime", "tensorrt"), pipelines.Stream{}, "vad/config.pbtxt:6:1: warning: Left out: vad: a Triton that goes on serving it wants to know of each request which sequence"},
		"of rows":    {rows, pipelines.Stream{}, "calls/config.pbtxt:4:32: warning: Left out: vad keeps state, and would run once for each row"},
		"step by ID": {id, pipelines.Stream{}, `calls/config.pbtxt:5:32: warning: Left out: calls: its step vad has the control input "READY", which clients would have to send`},
	} {
		t.Run(what, func(t *testing.T) {
			c.files["other/config.pbtxt"], c.files["other/1/model.onnx"] = strings.Replace(recurrent[:strings.Index(recurrent, "instance_group")], "chunk", "x", 1), ""
			out, lines := imported(t, c.files, nil)
			require.NotNil(t, out, lines)
			require.Contains(t, strings.Join(lines, "\n"), c.finds)
			i := slices.IndexFunc(out.Document.Pipelines, func(p pipelines.Pipeline) bool { return p.Module("vad") != nil })
			if strings.Contains(c.finds, "Left out") {
				require.Negative(t, i)
				return
			}
			p := out.Document.Pipelines[i]
			require.Equal(t, c.stream, p.Stream)
			vad := p.Module("vad")
			require.Equal(t, !c.stream.IsZero(), vad.State)
			if vad.State && vad.Model != "" {
				require.Equal(t, map[string]string{"INPUT_STATE": "OUTPUT_STATE"}, vad.Loops)
				require.Contains(t, vad.Inputs, pipelines.Binding{Name: "START", Value: 0.0})
				require.Len(t, vad.Inputs, 3)
				require.Equal(t, what != "by ID", slices.ContainsFunc(vad.Inputs, func(b pipelines.Binding) bool { return b.Value == true }))
			}
			require.NoError(t, os.MkdirAll("served", 0o755))
			require.NoError(t, os.WriteFile("served/pipelines.hcl", out.HCL(), 0o600))
			declared, diags := hcl.Load(hcl.LoadOptions{}, "served")
			require.False(t, diags.HasErrors(), diags)
			require.Equal(t, c.stream, declared.Document.Pipelines[i].Stream)
			for _, d := range declared.Validate(nil) {
				require.Equal(t, "Empty model", d.Summary, d)
			}
		})
	}
}

// Names of fields in the table are those of the schema.
func TestCounterparts(t *testing.T) {
	for _, row := range counterparts() {
		path, _, _ := strings.Cut(row.path, ":")
		assert.True(t, isField(path), path)
	}
}

// TestDeepTexts holds that a text takes time and memory by its length.
func TestDeepTexts(t *testing.T) {
	name := strings.Repeat("a", 90)
	_, diags := parse("config.pbtxt", []byte(strings.Repeat(name+"{", 9000)+strings.Repeat("}", 9000)))
	require.False(t, diags.HasErrors(), "%v", diags)
	require.Len(t, diags, 1)
	_, diags = parse("config.pbtxt", []byte(strings.Repeat(name+"{", 20000)))
	require.True(t, diags.HasErrors())
}

func FuzzParse(f *testing.F) {
	for file, text := range whole() {
		if filepath.Base(file) == configName {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("input < name: 'a' 'b' dims: [1,2] > # c\ninput: { name: \"x\\\"y\" };"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, diags := parse("config.pbtxt", src)
		if c == nil {
			require.True(t, diags.HasErrors())
			return
		}
		names := 0
		for _, p := range c.places {
			require.LessOrEqual(t, p.at.Start.Byte, len(src))
			if p.path == "input.name" {
				names++
			}
		}
		given := 0
		for _, in := range c.Input {
			if in.Name != "" {
				given++
			}
		}
		require.GreaterOrEqual(t, names, given)
		c.lost()
	})
}
