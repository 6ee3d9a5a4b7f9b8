package triton

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// Options say what a repository does not.
type Options struct {
	Folder string        // where the declaration will lie; paths in it are relative to that
	SLO    time.Duration // of every pipeline
	Rate   float64       // requests per second of every pipeline
	Triton string        // HOST:PORT (gRPC) of a Triton that goes on serving what only it can compute

	// Signatures reads what a network takes where its configuration does not say; nil reads none.
	Signatures pipelines.SignatureFunc
}

// Imported is a declaration that was made of a repository.
type Imported struct {
	Document pipelines.Document
	Served   []Served          // a row for each module, in order
	LeftOut  []string          // names of ensembles and models that are not among them
	Files    map[string][]byte // what else belongs into the folder, by name
	options  Options
}

// Served states what becomes of a model.
type Served struct {
	Pipeline string `json:"pipeline"`
	Module   string `json:"module"`
	Model    string `json:"model"`
	Version  int    `json:"version"`
	Backend  string `json:"backend"`
	By       string `json:"by"` // one of the By constants
}

// What computes a model after the import.
const (
	ByFile    = "file"    // its ONNX file, by an engine of this program
	ByProcess = "process" // its own code, by harpagon_engine
	ByTriton  = "triton"  // a Triton that is asked for it
)

// Kinds of hardware of the declaration, and prices that stand for the user's.
const (
	kindCPU, priceCPU       = "cpu", 0.05
	kindTriton, priceTriton = "triton", 1.0
	serversOfTriton         = 2 // batches under way there at a time
)

// importer makes pipelines.
type importer struct {
	Options
	repository *Repository
	out        *Imported
	diags      hcl.Diagnostics
	left       map[string]string     // models that are left out, and why
	told       map[string]bool       // models whose findings are there
	calls      map[string]*hcl.Range // by file of a model in Python, see callsOthers
}

// Import makes pipelines of all ensembles, and of all models that are in none. Where there are
// errors, the result is incomplete.
func (r *Repository) Import(o Options) (*Imported, hcl.Diagnostics) {
	im := &importer{Options: o, repository: r, out: &Imported{options: o, Files: map[string][]byte{}}, left: map[string]string{}, told: map[string]bool{}, calls: map[string]*hcl.Range{}}
	used := map[string]bool{}
	for _, m := range r.models {
		im.judge(m)
		for i, s := range m.GetEnsembleScheduling().GetStep() {
			if used[s.ModelName] = true; r.model(s.ModelName) == nil {
				im.problem("Unknown model", m.step(i, "model_name", ""), "There is no model %q in %s.%s", s.ModelName, r.Folder, pipelines.Suggest(s.ModelName, r.names()))
			}
		}
	}
	for _, m := range r.models {
		if used[m.name] && m.backend != backendEnsemble {
			continue
		}
		if used[m.name] && !im.inCircle(m) {
			continue // its steps stand in the ensembles around it
		}
		im.pipeline(m)
	}
	im.hardware()
	if len(im.out.Document.Pipelines) == 0 && !im.diags.HasErrors() {
		im.problem("Nothing to serve", nil, "Everything in %s is left out.", r.Folder)
	}
	slices.SortStableFunc(im.diags, func(a, b *hcl.Diagnostic) int {
		x, y := cmp.Or(a.Subject, &hcl.Range{}), cmp.Or(b.Subject, &hcl.Range{})
		return cmp.Or(strings.Compare(x.Filename, y.Filename), x.Start.Line-y.Start.Line, x.Start.Column-y.Start.Column)
	})
	return im.out, im.diags
}

func (r *Repository) names() (all []string) {
	for _, m := range r.models {
		all = append(all, m.name)
	}
	return all
}

func (im *importer) problem(summary string, at *hcl.Range, format string, args ...any) {
	im.diags = append(im.diags, files.Problem(summary, fmt.Sprintf(format, args...), at))
}

func (im *importer) tell(summary string, at *hcl.Range, format string, args ...any) {
	im.diags = append(im.diags, files.Warning(summary, fmt.Sprintf(format, args...), at))
}

// inCircle reports whether an ensemble is a step of itself, directly or through others.
func (im *importer) inCircle(m *model) bool {
	seen := map[string]bool{}
	var within func(at *model) bool
	within = func(at *model) bool {
		for _, s := range at.GetEnsembleScheduling().GetStep() {
			next := im.repository.model(s.ModelName)
			if next == m || next != nil && !seen[next.name] && func() bool { seen[next.name] = true; return within(next) }() {
				return true
			}
		}
		return false
	}
	return within(m)
}

// judge finds what of a model has no counterpart, and whether it can be served at all.
func (im *importer) judge(m *model) {
	im.diags = append(im.diags, m.lost()...)
	leave := func(at *hcl.Range, why string) {
		im.left[m.name] = why
		im.tell(leftOut, at, "%s: %s", m.name, why)
	}
	at, why := im.unkept(m)
	switch {
	case m.GetModelTransactionPolicy().GetDecoupled():
		leave(m.at("model_transaction_policy.decoupled"), "a request has one answer; a model that sends several, or none (decoupled), stays with Triton. To send frames of one stream, send requests.")
	case m.backend == "vllm" || m.backend == "tensorrtllm":
		leave(m.at("backend"), "requests whose length is not known before they run are not what plans are made of; it stays with Triton.")
	case why != "":
		leave(at, why)
	default:
		im.sequences(m)
	}
}

// computed reports what computes a model.
func (im *importer) computed(m *model) string {
	switch m.backend {
	case backendONNX:
		return ByFile
	case backendPython:
		if im.callsOthers(m) == nil {
			return ByProcess
		}
	}
	return ByTriton
}

// call is how code in Python asks for another model of its server.
var call = regexp.MustCompile(`\.(async_)?exec\(`)

// callsOthers is where a model in Python, in the files of its version, calls other models; nil
// where it does not.
func (im *importer) callsOthers(m *model) *hcl.Range {
	found, known := im.calls[m.path]
	if known {
		return found
	}
	_ = filepath.WalkDir(filepath.Dir(m.path), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".py" {
			return nil
		}
		src, err := osutil.ReadFile(path, mostConfig)
		if err != nil || !strings.Contains(string(src), "InferenceRequest(") {
			return nil
		}
		for i, line := range strings.Split(string(src), "\n") {
			if at := call.FindStringIndex(line); at != nil {
				p := hcl.Pos{Line: i + 1, Column: at[0] + 1}
				found = &hcl.Range{Filename: path, Start: p, End: p}
				return fs.SkipAll
			}
		}
		return nil
	})
	im.calls[m.path] = found
	return found
}

// relative is a path as the declaration has it.
func (im *importer) relative(path string) string {
	from, err1 := filepath.Abs(im.Folder)
	to, err2 := filepath.Abs(path)
	rel, err := filepath.Rel(from, to)
	if err1 != nil || err2 != nil || err != nil {
		return path
	}
	if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, "../") {
		rel = "./" + rel
	}
	return rel
}

// module makes one that computes the model from the tensors that it takes, by the names of its
// inputs; they are not bound yet.
func (im *importer) module(m *model, name string, takes map[string]string) pipelines.Module {
	out := pipelines.Module{Name: name, Fanout: 1, Batches: m.batches(), Hardware: []string{kindCPU}}
	switch by := im.computed(m); by {
	case ByFile:
		out.Model = strings.TrimPrefix(im.relative(m.path), "./")
		for _, library := range m.GetModelOperations().GetOpLibraryFilename() {
			if at := filepath.Join(m.folder, library); !filepath.IsAbs(library) {
				if _, err := os.Stat(at); err == nil {
					library = im.relative(at)
				}
			}
			out.Libraries = append(out.Libraries, library)
		}
	case ByProcess:
		settings := free(name, func(s string) bool { return im.out.Files[s+".json"] != nil }) + ".json"
		im.out.Files[settings] = m.settings(takes)
		out.Command = []string{"python3", "-m", "harpagon_engine.triton", "./" + settings, im.relative(m.path)}
		out.Files = []string{im.relative(m.folder)}
	default:
		out.Model, out.Hardware = "grpc://${var.triton}/"+m.name, []string{kindTriton}
	}
	im.explain(m)
	return out
}

// explain says, once, what a model that is no ONNX file asks of the user.
func (im *importer) explain(m *model) {
	if im.told[m.name] {
		return
	}
	im.told[m.name] = true
	at := m.at(cmp.Or(map[bool]string{true: "backend"}[m.Backend != ""], "platform"))
	switch by := im.computed(m); {
	case by == ByProcess:
		im.tell(different, at, "%s: its own code runs in a process (command), by the part of triton_python_backend_utils that harpagon_engine.triton has; it needs numpy beside what it imports.", m.name)
	case by == ByTriton && m.backend == backendPython:
		im.tell(noCounterpart, im.callsOthers(m), "%s: this calls other models (BLS), which modules do not. It is asked of a Triton at var.triton; or make the calls modules of a pipeline, with when and else for conditions.", m.name)
	case by == ByTriton:
		im.tell(different, at, "%s: backend %s is not run here, and is asked of a Triton at var.triton. To run it without, %s.", m.name, m.backend, instead(m.backend))
	}
}

// instead reports how a model of a backend comes to run without a Triton.
func instead(backend string) string {
	switch backend {
	case "tensorrt":
		return "name the ONNX file that the plan was made of as its model, with engine = \"onnxruntime-tensorrt\""
	case "pytorch":
		return "export it by torch.onnx.export with dynamic_axes for the batch, or serve it by a program: command = [\"python3\", \"./serve.py\"] with harpagon_engine.torch (docs/tutorials/pytorch-on-a-gpu.md)"
	case "tensorflow":
		return "export it by tf2onnx"
	case "openvino":
		return "take the ONNX file that it was converted from"
	case "dali":
		return "decode, resize, crop and normalize by functions (docs/reference/steps.md)"
	}
	return "write its code as a class of harpagon_engine (python/README.md): command = [\"python3\", \"./serve.py\"]"
}

// settings is the model's configuration as its code in Python gets it. What it takes is not optional.
func (m *model) settings(takes map[string]string) []byte {
	named := proto.CloneOf(m.ModelConfig)
	named.Name = m.name
	for _, in := range named.Input {
		in.Optional = takes[in.Name] == ""
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true, Indent: " "}.Marshal(named)
	if err != nil { // cannot happen: it was read of a text
		return nil
	}
	text = regexp.MustCompile(`:  +`).ReplaceAll(text, []byte(": ")) // the library varies its spaces
	return append(text, '\n')
}

// batches are the sizes to measure; nil for the default, which goes to 32.
func (m *model) batches() []int {
	const most = 32
	var all []int
	for _, n := range m.GetDynamicBatching().GetPreferredBatchSize() {
		all = append(all, int(n))
	}
	limit := int(m.MaxBatchSize)
	if limit == 0 || len(all) == 0 && limit >= most {
		return nil
	}
	if len(all) == 0 {
		for n := 2; n < limit; n *= 2 {
			all = append(all, n)
		}
		all = append(all, limit)
	}
	all = append(all, 1)
	all = slices.DeleteFunc(all, func(n int) bool { return n < 1 || n > limit })
	slices.Sort(all)
	return slices.Compact(all)
}

// hardware declares what the modules run on.
func (im *importer) hardware() {
	remote := slices.ContainsFunc(im.out.Served, func(s Served) bool { return s.By == ByTriton })
	doc := &im.out.Document
	doc.Hardware = []pipelines.Hardware{{Name: kindCPU, Price: priceCPU}}
	text := fmt.Sprintf("slo %v, rate %v and the price of a core (%v an hour) are not in the repository: set them by --slo, --rate, or var in the declaration.", im.SLO, im.Rate, priceCPU)
	if remote {
		doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: kindTriton, Price: priceTriton, Count: serversOfTriton})
		text += fmt.Sprintf(" So are the price (%v an hour) and count (%d batches at a time) of the Triton at %s.", priceTriton, serversOfTriton, im.Triton)
	}
	im.tell(assumed, nil, "%s", text)
}

// nameOf makes a name of any text, of what names may have.
func nameOf(text string) string {
	if pipelines.IsName(text) {
		return text
	}
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if r < 0x80 && pipelines.IsName("a"+string(r)) {
			return r
		}
		return '-'
	}, text), "-_.")
	return cmp.Or(name[:min(len(name), 100)], "unnamed")
}

// free is the name, with a number behind it where it is taken.
func free(name string, taken func(string) bool) string {
	for n, as := 2, name; ; n++ {
		if !taken(as) {
			return as
		}
		as = name + "-" + strconv.Itoa(n)
	}
}
