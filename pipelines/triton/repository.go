package triton

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
)

// configName is the file of a model's folder that holds its configuration.
const configName = "config.pbtxt"

// mostConfig bounds a configuration in bytes.
const mostConfig = 1 << 20

// Backends whose models can be computed without a Triton.
const (
	backendONNX     = "onnxruntime"
	backendPython   = "python"
	backendEnsemble = "ensemble"
)

// platforms are what configurations may name in place of a backend.
func platforms() map[string]string {
	return map[string]string{
		"onnxruntime_onnx": backendONNX, "ensemble": backendEnsemble, "tensorrt_plan": "tensorrt", "pytorch_libtorch": "pytorch",
		"tensorflow_savedmodel": "tensorflow", "tensorflow_graphdef": "tensorflow", "caffe2_netdef": "caffe2", "custom": "custom",
	}
}

// modelFiles are the files by which a backend is known where nothing names it, and which it takes
// where no other is named.
func modelFiles() []struct{ name, backend string } {
	return []struct{ name, backend string }{
		{"model.onnx", backendONNX}, {"model.py", backendPython}, {"model.plan", "tensorrt"}, {"model.pt", "pytorch"},
		{"model.savedmodel", "tensorflow"}, {"model.graphdef", "tensorflow"}, {"model.xml", "openvino"}, {"model.dali", "dali"},
	}
}

// backends are those of public releases.
func backends() []string {
	all := []string{"caffe2", "custom", "fil", "identity", "repeat", "square", "tensorrtllm", "vllm", backendEnsemble}
	for _, f := range modelFiles() {
		all = append(all, f.backend)
	}
	return all
}

// Repository is what has been read of a folder of models.
type Repository struct {
	Folder string
	models []*model // by name
}

// model is one of a repository.
type model struct {
	name    string
	folder  string
	backend string
	version int    // 0 for an ensemble without one
	path    string // of its file; empty for an ensemble
	*config
}

func (r *Repository) model(name string) *model {
	for _, m := range r.models {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Read reads a repository of models: their configurations, versions and the names of their files.
// The errors among the findings are what keeps a model from being served by Triton, too.
func Read(folder string) (*Repository, hcl.Diagnostics) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, hcl.Diagnostics{files.Problem("No repository", fmt.Sprintf("%v; name the folder that holds the folders of models.", err), nil)}
	}
	r := &Repository{Folder: folder}
	var diags hcl.Diagnostics
	for _, e := range entries {
		at := filepath.Join(folder, e.Name())
		if info, err := os.Stat(at); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		m, more := readModel(at)
		if diags = append(diags, more...); m != nil {
			r.models = append(r.models, m)
		}
	}
	if len(r.models) == 0 && !diags.HasErrors() {
		diags = append(diags, files.Problem("No models", fmt.Sprintf("%s holds no folder with a %s or with numbered folders.%s", folder, configName, elsewhere(folder)), nil))
	}
	return r, diags
}

// elsewhere names a folder near by that holds models.
func elsewhere(folder string) string {
	if _, err := os.Stat(filepath.Join(folder, configName)); err == nil {
		return fmt.Sprintf(" It is the folder of one model; name the one around it: %s.", filepath.Join(folder, ".."))
	}
	for _, pattern := range []string{"*/*/", "*/*/*/"} {
		if found, err := filepath.Glob(filepath.Join(folder, pattern, configName)); err == nil && len(found) > 0 {
			return fmt.Sprintf(" There are models in %s.", filepath.Dir(filepath.Dir(found[0])))
		}
	}
	return ""
}

// readModel reads a model's folder; nil for one of something else, or that is broken.
func readModel(folder string) (*model, hcl.Diagnostics) {
	m := &model{name: filepath.Base(folder), folder: folder}
	file, versions := filepath.Join(folder, configName), versionsIn(folder)
	src, err := osutil.ReadFile(file, mostConfig)
	var diags hcl.Diagnostics
	switch {
	case os.IsNotExist(err) && len(versions) == 0:
		return nil, nil
	case !utf8.ValidString(m.name):
		return nil, hcl.Diagnostics{files.Problem("Unusable name", fmt.Sprintf("The name of the model's folder, %q, is not UTF-8; rename it.", folder), nil)}
	case os.IsNotExist(err):
		m.config = &config{ModelConfig: new(modelconfig.ModelConfig), file: folder}
	case err != nil:
		return nil, hcl.Diagnostics{files.Problem("Unusable configuration", err.Error()+".", &hcl.Range{Filename: file, Start: hcl.InitialPos, End: hcl.InitialPos})}
	default:
		if m.config, diags = parse(file, src); diags.HasErrors() {
			return nil, diags
		}
		diags = append(diags, m.datatypes()...)
	}
	diags = append(diags, m.identify(versions)...)
	if diags.HasErrors() {
		return nil, diags
	}
	return m, diags
}

// versionsIn are the numbers of a model's versions, from the oldest on.
func versionsIn(folder string) (all []int) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && strconv.Itoa(n) == e.Name() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// identify finds out what computes the model, and from which file.
func (m *model) identify(versions []int) hcl.Diagnostics {
	problem := func(field, summary, format string, args ...any) hcl.Diagnostics {
		return hcl.Diagnostics{files.Problem(summary, fmt.Sprintf(format, args...), m.at(field))}
	}
	if m.Name != "" && m.Name != m.name {
		return problem("name", "Two names", "The configuration calls the model %q, and its folder is %q; Triton serves no such model. Make them one.", m.Name, m.name)
	}
	if known, ok := platforms()[m.Platform]; ok {
		m.backend = known
	} else if m.Platform != "" {
		guess := pipelines.Suggest(m.Platform, sortedKeys(platforms()))
		if slices.Contains(backends(), m.Platform) {
			guess = fmt.Sprintf(" It is a backend: backend: %q.", m.Platform)
		}
		return problem("platform", "Unknown platform", "No backend of Triton has the platform %q.%s", m.Platform, guess)
	}
	m.backend = cmp.Or(m.Backend, m.backend)
	if m.GetEnsembleScheduling() != nil && m.backend == "" {
		m.backend = backendEnsemble
	}
	if !slices.Contains(backends(), m.backend) {
		if guess := pipelines.Suggest(m.backend, backends()); guess != "" && m.backend != "" {
			return problem("backend", "Unknown backend", "There is no backend %q.%s", m.backend, guess)
		}
	}
	if m.backend == backendEnsemble {
		if len(m.GetEnsembleScheduling().GetStep()) == 0 {
			return problem("platform", "Ensemble without steps", "An ensemble is its steps: ensemble_scheduling { step [ ... ] }.")
		}
		return nil
	}
	if len(versions) == 0 {
		return problem("", "No version", "%s has no numbered folder (1, 2, ...) with the model in it; Triton serves no such model either.", m.folder)
	}
	m.version = versions[len(versions)-1]
	if wanted := m.GetVersionPolicy().GetSpecific().GetVersions(); len(wanted) > 0 {
		m.version = int(slices.Max(wanted))
		if !slices.Contains(versions, m.version) {
			return problem("version_policy.specific.versions", "No such version", "%s has no folder %d; it has %s.", m.folder, m.version, numbers(versions))
		}
	}
	return m.locate(problem)
}

// locate finds the file of the model's version.
func (m *model) locate(problem func(field, summary, format string, args ...any) hcl.Diagnostics) hcl.Diagnostics {
	within := filepath.Join(m.folder, strconv.Itoa(m.version))
	name := m.DefaultModelFilename
	if name != "" && !filepath.IsLocal(name) {
		return problem("default_model_filename", "Path outside the model", "%q is not in %s; name a file in the folder of the version.", name, within)
	}
	for _, f := range modelFiles() {
		_, err := os.Stat(filepath.Join(within, f.name))
		if m.backend == "" && err == nil {
			m.backend = f.backend
		}
		if m.backend == f.backend && (name == "" || err == nil && m.DefaultModelFilename == "") {
			name = f.name
		}
	}
	if m.backend == "" {
		return problem("", "No backend", "Neither backend nor platform is given, and %s has no file that shows which (model.onnx, model.py, ...).", within)
	}
	m.path = filepath.Join(within, name)
	return append(m.absent(m.at("default_model_filename")), m.libraries()...)
}

// absent warns of a file that is not there.
func (m *model) absent(at *hcl.Range) hcl.Diagnostics {
	if _, err := os.Stat(m.path); err != nil && (m.backend == backendONNX || m.backend == backendPython) {
		return hcl.Diagnostics{files.Warning("Missing model", fmt.Sprintf("%s is not there; put it there before %q is served.", m.path, m.name), at)}
	}
	return nil
}

// libraries checks where the libraries of operators lie.
func (m *model) libraries() (diags hcl.Diagnostics) {
	const field = "model_operations.op_library_filename"
	for _, library := range m.GetModelOperations().GetOpLibraryFilename() {
		at := m.at(field)
		if p := m.find(field, library); p != nil {
			at = &p.at
		}
		switch {
		case m.backend != backendONNX || filepath.IsLocal(library):
		case filepath.IsAbs(library):
			diags = append(diags, files.Warning(different, fmt.Sprintf("%s: the library %s lies outside the repository; every worker needs it at this path.", m.name, library), at))
		default:
			diags = append(diags, files.Problem("Path outside the model", fmt.Sprintf("The library %q is not in %s; name a file in it, or one by its absolute path.", library, m.folder), at))
		}
	}
	return diags
}

func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

func sortedKeys[V any](of map[string]V) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
