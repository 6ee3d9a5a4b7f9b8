package pipelines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// served checks the parts of a module that only these engines have: an address
// instead of a file, and a command.
func (v *validator) served(m *Module, path string) {
	engine, _ := EngineNamed(m.Engine)
	switch {
	case engine.Takes == SourceAddress && !IsRemote(m.Model):
		v.errorf(orPlace(v, path, ".model"), "No address", "The engine %s asks a server for the model; %s.", m.Engine, RemoteForm)
	case IsRemote(m.Model) && !m.takes(SourceAddress):
		v.errorf(path+".engine", "Address without the remote engine", "The engine %q reads a file, but the model is on a server. Leave engine out, or write \"remote\".", m.Engine)
	case IsRemote(m.Model):
		if _, err := ParseRemote(m.Model); err != nil {
			v.errorf(path+".model", "Invalid address", "%s.", sentence(err))
		}
	case IsFetched(m.Model):
		if _, digest := FetchAddress(m.Model); strings.Contains(m.Model, "#") && CheckDigest(digest) != nil {
			v.errorf(path+".model", "Invalid digest", "What follows # in the address of a file is its digest: %s.", CheckDigest(digest))
		}
	}
	if len(m.Files) > 0 && len(m.Command) == 0 {
		v.errorf(path+".files", "Files without a command", "These are files that a command needs besides its arguments; other engines find what a model needs by themselves.")
	}
	for _, f := range m.Files {
		if v.elsewhere {
			break
		}
		info, err := v.stat(f)
		switch {
		case err != nil:
			v.errorf(path+".files", "Missing file", "%s does not exist; paths are relative to the folder of this file.", f)
		case !info.IsDir() && osutil.RegularFile(f, info) != nil:
			v.errorf(path+".files", "Unusable file", "%v.", osutil.RegularFile(f, info))
		}
	}
	v.libraries(m, path+".libraries")
	switch {
	case engine.Takes == SourceCommand && len(m.Command) == 0:
		v.errorf(path+".engine", "No command", "The engine %s starts a program that serves the model: command = [\"python3\", \"./serve.py\"].", m.Engine)
	case len(m.Command) > 0 && m.Command[0] == "":
		v.errorf(path+".command", "No command", "The first element of a command is the program.")
	case len(m.Command) > 0 && m.Function != "":
		v.errorf(path+".command", "Two kinds of module", "A module is either a processing step (function) or served by a command.")
	case len(m.Command) > 0 && !m.takes(SourceCommand):
		v.errorf(path+".engine", "Command without the process engine", "The engine %q starts no command. Leave engine out, or write \"process\".", m.Engine)
	case len(m.Command) > 0 && IsRemote(m.Model):
		v.errorf(path+".command", "Command beside an address", "The model is on a server already; leave out either.")
	}
}

// libraries checks those with operators; they are read where the module runs.
func (v *validator) libraries(m *Module, at string) {
	if e, known := EngineNamed(m.EngineName()); len(m.Libraries) > 0 && known && (m.Source() != SourceFile || !e.AnyAxis) {
		v.errorf(at, "Libraries without onnxruntime", "Libraries hold operators for the onnxruntime engines; %q is computed by %q. Take one of the two out.", m.Name, m.EngineName())
	}
	for _, path := range m.Libraries {
		if _, err := v.stat(path); err != nil && !v.elsewhere {
			v.warnf(at, "Missing library", "%s does not exist here. It is needed at this path of every machine that runs %q, in a folder that its worker allows.", path, m.Name)
		}
	}
}

func (v *validator) modelFile(m *Module, path string) {
	if v.elsewhere {
		return
	}
	info, err := v.stat(m.Model)
	switch {
	case err != nil && len(m.Profile.Points) > 0:
		v.modelless[m.Model] = true
		v.warnf(path+".model", "Missing model", "%s does not exist. The profile suffices to plan, but not to serve.", m.Model)
	case err != nil:
		v.modelless[m.Model] = true
		v.errorf(path+".model", "Missing model", "%s does not exist; the path is relative to the folder of this file.", m.Model)
	case len(m.Command) > 0 && info.IsDir(): // the command knows what is in it
	case info.IsDir():
		v.modelless[m.Model] = true
		v.errorf(path+".model", "Missing model", "%s is a folder; name an ONNX file.", m.Model)
	case osutil.RegularFile(m.Model, info) != nil:
		v.modelless[m.Model] = true
		v.errorf(path+".model", "Unusable model", "%v.", osutil.RegularFile(m.Model, info))
	case len(m.Command) > 0:
	case notONNX(m.Model) != "":
		v.modelless[m.Model] = true
		v.errorf(path+".model", "No ONNX file", "%s is %s. Engines read ONNX: export it, or serve it with a program of yours: command = [\"python3\", \"./serve.py\"].", m.Model, notONNX(m.Model))
	case isPointer(m.Model, info):
		v.modelless[m.Model] = true
		v.errorf(path+".model", "Not the file itself", "%s is a pointer of git-lfs. Fetch what it points to: git lfs pull.", m.Model)
	case info.Size() == 0 && len(m.Profile.Points) == 0:
		v.modelless[m.Model] = true
		v.errorf(path+".model", "Empty model", "%s is empty; that is allowed only where a profile is given.", m.Model)
	}
}

// notONNX reports what a file is that is no ONNX file by its name; empty for others.
func notONNX(path string) string {
	return map[string]string{
		".pt": "a network of PyTorch", ".pth": "a network of PyTorch", ".safetensors": "the weights of a network alone", ".h5": "a network of Keras",
		".keras": "a network of Keras", ".pb": "a network of TensorFlow", ".tflite": "a network of TensorFlow Lite", ".engine": "an engine of TensorRT", ".plan": "an engine of TensorRT",
	}[strings.ToLower(filepath.Ext(path))]
}

// lfsPointer is how a file begins that stands for one which git-lfs has not fetched.
const lfsPointer = "version https://git-lfs"

func isPointer(path string, info os.FileInfo) bool {
	if info.Size() < int64(len(lfsPointer)) || info.Size() > 1<<10 {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && strings.HasPrefix(string(text), lfsPointer)
}

// orPlace is where an attribute stands, or else its block.
func orPlace(v *validator, path, attribute string) string {
	if v.missing(path + attribute) {
		return path
	}
	return path + attribute
}

// CheckServable reports why a declaration can be planned and not served; nil where it can
// be.
func CheckServable(doc *Document) error {
	for _, f := range doc.Functions {
		if p := doc.Provider(f.Provider); p != nil && p.URL == "" {
			return fmt.Errorf("provider %q has no url, so function %q can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\", and start examples/functions to stand in for it on this machine", p.Name, f.Name)
		}
	}
	return nil
}

// maxCombinations bounds in how many ways the variants of a pipeline's modules go
// together: a plan is looked for with each.
const maxCombinations = 256

// variants checks the variants of a pipeline's modules, and that its floor can be met.
func (v *validator) variants(p *Pipeline, path string) {
	best, count := 1.0, 1
	for i := range p.Modules {
		m := &p.Modules[i]
		at := path + ".module." + m.Name
		v.accuracy(m.Accuracy, at)
		if len(m.Variants) > 0 && m.Accuracy == 0 && !v.declared(at+".accuracy") {
			v.errorf(at, "Accuracy missing", "Module %q has variants; declare the accuracy of its own network, too: accuracy = 0.76.", m.Name)
		}
		if len(m.Variants) > 0 && m.Function != "" {
			v.errorf(at+".function", "Variants of a function", "A variant stands in for a network; %q is a processing step. Take its variants out.", m.Name)
		}
		most := m.Right()
		for k := range m.Variants {
			v.variant(m, &m.Variants[k], at+".variant."+m.Variants[k].Name)
			most = max(most, m.Variants[k].Accuracy)
		}
		best *= most
		if count <= maxCombinations {
			count *= 1 + len(m.Variants)
		}
	}
	v.accuracy(p.Accuracy, path)
	if p.Varied() && v.doc.ClusterOf(p.Name) != "" {
		v.warnf(path, "Variants in a cluster", "A cluster runs the modules' own networks; the variants of %q are not used there.", p.Name)
	}
	switch {
	case p.Accuracy > best*(1+accuracyTolerance):
		v.errorf(path+".accuracy", "Accuracy cannot be met", "An accuracy of %s cannot be met: with the most accurate network of each module the pipeline has %s (the product of theirs). Ask for less, or add a more accurate variant.",
			quantity.Number(p.Accuracy), quantity.Number(best))
	case count > maxCombinations:
		v.errorf(path, "Too many combinations", "The variants of the modules go together in more than %d ways, and a plan is looked for with each. Take some out.", maxCombinations)
	}
}

// accuracyTolerance is how much more than a product of accuracies counts as rounding.
const accuracyTolerance = 1e-9

// accuracy finds one that a declaration made in Go may have; HCL is refused when it is read.
func (v *validator) accuracy(x float64, path string) {
	if !(x >= 0 && x <= 1) {
		v.errorf(path+".accuracy", "Invalid accuracy", "Accuracy is the share of answers that are right, above 0 and at most 1, such as 0.76.")
	}
}

func (v *validator) variant(m *Module, one *Variant, path string) {
	as := m.As(one.Name)
	if one.Name == "" {
		v.errorf(path, "Variant without a name", "Give the variant of module %q a name.", m.Name)
		return
	}
	if len(one.Profile.Points) == 0 && !v.unread(one.ProfileFile) && (one.ProfileFile == "" || !v.missing(path+".profile")) {
		v.errorf(path, "Variant without a profile", "Variant %q of %q has no profile, without which it cannot be planned. Measure it with harpagon profile, as a module, and name the file: profile = \"%s.csv\".", one.Name, m.Name, one.Name)
	}
	v.accuracy(one.Accuracy, path)
	if one.Accuracy == 0 && !v.declared(path+".accuracy") && !v.missing(path+".accuracy") {
		v.errorf(path, "Accuracy missing", "Say how accurate variant %q is: accuracy = 0.71.", one.Name)
	}
	v.served(&as, path)
	if as.Model != "" && !strings.Contains(as.Model, "://") {
		v.modelFile(&as, path)
	}
	if len(one.Profile.Points) > 0 {
		v.moduleHardware(&as, path)
	}
}

// variantShapes compares what variants take and give with what their module does.
func (v *validator) variantShapes(m *Module, own Signature, path string) {
	for _, one := range m.Variants {
		as := m.As(one.Name)
		at := path + ".variant." + one.Name
		if v.modelless[as.Model] {
			continue
		}
		sig, err := v.signatureOf(&as)
		if err != nil {
			v.errorf(at+".model", "Unusable model", "%v", err)
			continue
		}
		if len(sig.Inputs) == 0 || len(own.Inputs) == 0 {
			continue // nothing is known of one of them
		}
		for _, side := range []struct {
			what string
			a, b []Port
		}{{"input", own.Inputs, sig.Inputs}, {"output", own.Outputs, sig.Outputs}} {
			if why := otherPorts(side.what, side.a, side.b); why != "" {
				v.errorf(at+".model", "Another signature", "Variant %q cannot stand in for %q: %s. Export it with the same inputs and outputs, or make it a module of its own.", one.Name, m.Name, why)
				break
			}
		}
	}
}

// otherPorts says in what the ports of a variant differ from its module's; empty where
// they are the same, in any order.
func otherPorts(what string, own, variant []Port) string {
	for _, p := range own {
		i := slices.IndexFunc(variant, func(q Port) bool { return q.Name == p.Name })
		switch {
		case i < 0:
			return fmt.Sprintf("it has no %s %q", what, p.Name)
		case variant[i].Datatype != p.Datatype || !SameShape(variant[i].Shape, p.Shape):
			return fmt.Sprintf("its %s %q is %s %v, and the module's %s %v", what, p.Name, variant[i].Datatype, variant[i].Shape, p.Datatype, p.Shape)
		}
	}
	for _, q := range variant {
		if !slices.ContainsFunc(own, func(p Port) bool { return p.Name == q.Name }) {
			return fmt.Sprintf("it has another %s, %q", what, q.Name)
		}
	}
	return ""
}

// quickest is the pipeline with the points of all variants in the profiles of its
// modules, for what not even the fastest can do.
func quickest(p *Pipeline) *Pipeline {
	all := *p
	all.Modules = slices.Clone(p.Modules)
	for i := range all.Modules {
		m := &all.Modules[i]
		m.Profile.Points = slices.Clone(m.Profile.Points)
		for _, one := range m.Variants {
			m.Profile.Points = append(m.Profile.Points, one.Profile.Points...)
		}
	}
	return &all
}
