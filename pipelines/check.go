package pipelines

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// maxRate bounds a declared rate, in requests per second: beyond it a request
// would come every nanosecond.
const maxRate = 1e9

func sensibleRate(x float64) bool { return x >= 0 && x <= maxRate }

// SignatureFunc returns what a module consumes and produces; the empty signature
// says that nothing is known.
type SignatureFunc func(Module) (Signature, error)

// Finding is something that is wrong with a declaration.
type Finding struct {
	Path    string // what it is about, such as "pipeline.traffic.module.detect.profile"
	Warning bool
	Summary string
	Detail  string
}

// Sources is what is known of how a declaration was written down. The zero value
// stands for one that a program made.
type Sources struct {
	// Missing reports that the attribute was not declared, or could not be read, which
	// was reported when it was read. Nil: never.
	Missing func(path string) bool

	// Declared reports that the attribute was declared, whether it could be read or
	// not. Nil: never.
	Declared func(path string) bool

	// Broken reports that reading the file has found errors, which explain what is
	// missing from it. Nil: never.
	Broken func(file string) bool
}

// CheckAll finds everything that is wrong with a declaration, in one pass. sig
// may be nil; models are then not opened and shapes not compared.
func CheckAll(doc *Document, src Sources, sig SignatureFunc) []Finding {
	return newValidator(doc, src, sig).all()
}

func (v *validator) all() []Finding {
	if len(v.doc.Pipelines)+len(v.doc.Functions)+len(v.doc.Pools) == 0 {
		v.errorf("", "No pipeline", "The files declare no pipeline, function or pool block; harpagon init writes an example.")
	}
	for i := range v.doc.Hardware {
		v.hardware(&v.doc.Hardware[i])
	}
	for i := range v.doc.Pipelines {
		v.pipeline(&v.doc.Pipelines[i])
	}
	for i := range v.doc.Providers {
		v.provider(&v.doc.Providers[i])
	}
	for i := range v.doc.Functions {
		v.function(&v.doc.Functions[i])
	}
	for i := range v.doc.Pools {
		v.pool(&v.doc.Pools[i])
	}
	for i := range v.doc.Clusters {
		v.cluster(&v.doc.Clusters[i])
	}
	return v.problems
}

// CheckDocument is CheckAll for a declaration made in Go, as one error; warnings
// are left out.
func CheckDocument(d Document, sig SignatureFunc) error {
	return joined(CheckAll(&d, Sources{}, sig), "pipelines: ", "")
}

// CheckElsewhere is CheckDocument for who does not see the files of the declaration, such as
// whoever it was applied to: hosts have them, or fetch them.
func CheckElsewhere(d Document) error {
	v := newValidator(&d, Sources{}, nil)
	v.elsewhere = true
	return joined(v.all(), "pipelines: ", "")
}

// joined makes an error of problems, but for those with a summary that is let
// pass.
func joined(all []Finding, prefix, pass string) error {
	var errs []error
	for _, p := range all {
		if !p.Warning && p.Summary != pass {
			errs = append(errs, fmt.Errorf("%s%s: %s", prefix, p.Summary, p.Detail))
		}
	}
	return errors.Join(errs...)
}

type validator struct {
	doc       *Document
	written   Sources
	signature SignatureFunc
	problems  []Finding

	hardwareNames []string
	compared      int             // names compared for suggestions
	modelless     map[string]bool // paths of models that were reported
	files         map[string]stat // what was found at paths of models
	elsewhere     bool            // files are not looked at
	signatures    map[model]Signature
	g             *Graph       // of the pipeline that is looked at
	doubted       map[Ref]bool // outputs of it that were warned of
}

// stat is what the file system says of a path. Modules often share one.
type stat struct {
	info os.FileInfo
	err  error
}

func (v *validator) stat(path string) (os.FileInfo, error) {
	s, known := v.files[path]
	if !known {
		s.info, s.err = os.Stat(path)
		v.files[path] = s
	}
	return s.info, s.err
}

func newValidator(doc *Document, src Sources, sig SignatureFunc) *validator {
	v := &validator{doc: doc, written: src, signature: sig, modelless: map[string]bool{}, files: map[string]stat{}, signatures: map[model]Signature{}}
	for _, h := range doc.Hardware {
		v.hardwareNames = append(v.hardwareNames, h.Name)
	}
	return v
}

// maxCompared bounds the names that are compared for suggestions in one
// declaration: beyond it a finding comes without.
const maxCompared = 1_000_000

func (v *validator) suggest(name string, candidates []string) string {
	if v.compared += len(candidates); v.compared > maxCompared {
		return ""
	}
	return Suggest(name, candidates)
}

func (v *validator) errorf(path, summary, format string, args ...any) {
	v.problems = append(v.problems, Finding{Path: path, Summary: summary, Detail: fmt.Sprintf(format, args...)})
}

func (v *validator) warnf(path, summary, format string, args ...any) {
	v.problems = append(v.problems, Finding{Path: path, Warning: true, Summary: summary, Detail: fmt.Sprintf(format, args...)})
}

func (v *validator) pipeline(p *Pipeline) {
	path := "pipeline." + p.Name
	v.g = p.Resolve()
	v.objective(p, path)
	v.planning(p.Plan, KindPipeline, path)
	v.update(p.Update, path)
	v.stream(p, path)
	v.overlay(p, path)
	for i := range p.Inputs {
		v.input(&p.Inputs[i], path+".input."+p.Inputs[i].Name)
	}
	for i := range p.Modules {
		v.module(p, &p.Modules[i], path+".module."+p.Modules[i].Name)
	}
	for _, o := range p.Outputs {
		v.reference(p, o.From, path+".output."+o.Name+".value")
	}
	switch {
	case len(p.Modules) == 0:
		v.errorf(path, "No module", "A pipeline has at least one module.")
		return
	case len(p.Outputs) == 0:
		v.errorf(path, "No output", "A pipeline has at least one output block: output \"NAME\" { value = module.NAME.OUTPUT }.")
	case len(p.Inputs) == 0:
		v.errorf(path, "No input", "A pipeline has at least one input block with a datatype and a shape.")
	}
	if !v.order(p, path) {
		return
	}
	v.reachable(p, path)
	v.gathers(p, path)
	v.joins(p, path)
	v.variants(p, path)
	v.states(p, path)
	v.fastest(p, path)
	if v.signature != nil {
		v.shapes(p, path)
	}
}

func (v *validator) objective(p *Pipeline, path string) {
	if p.SLO <= 0 && !v.missing(path+".slo") {
		v.errorf(path+".slo", "Invalid objective", "The SLO must be above zero.")
	}
	if !sensibleRate(p.Rate) {
		v.errorf(path+".rate", "Invalid rate", "A rate is a number of requests per second, from zero to %.0g.", maxRate)
	}
	if p.Attainment < 0 && p.Attainment != NoAttainment || p.Attainment > 1 || math.IsNaN(p.Attainment) {
		v.errorf(path+".attainment", "Invalid attainment", "Attainment is a share between 0 and 1, such as 0.99; 0 asks for none.")
	}
	if p.Headroom != nil {
		if wrong := CheckHeadroom(*p.Headroom); wrong != "" {
			v.errorf(path+".headroom", "Invalid headroom", "%s", wrong)
		}
	}
	kind, _, _, err := SplitArrivals(p.Arrivals)
	if err != nil {
		v.errorf(path+".arrivals", "Invalid arrivals", "%s.", sentence(err))
	}
	if p.Attainment > 0 && err == nil && kind == ArrivalsEven && p.ProvesEvery() {
		v.warnf(path+".attainment", "Attainment without random arrivals", "With even arrivals every request of a plan that is proven meets the SLO. Say how requests come, as in arrivals = \"poisson\", to plan for the attainment.")
	}
	v.dispatch(KindPipeline, p.Dispatch, path+".dispatch")
}

// dispatch checks that the policy exists and can serve the kind of service.
func (v *validator) dispatch(k Kind, policy, path string) {
	if fault := DispatchFault(k, policy); fault.Summary != "" {
		v.errorf(path, fault.Summary, "%s", fault.Detail)
	}
}

// missing reports whether the attribute was not declared, or could not be read.
func (v *validator) missing(path string) bool {
	return v.written.Missing != nil && v.written.Missing(path)
}

func (v *validator) declared(path string) bool {
	return v.written.Declared != nil && v.written.Declared(path)
}

func (v *validator) unread(file string) bool {
	return v.written.Broken != nil && v.written.Broken(file)
}

// datatypes of the Open Inference Protocol.
func datatypes() []string {
	return []string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"}
}

// suggestDatatype goes by what Triton, NumPy and C call it.
func suggestDatatype(name string) string {
	plain := strings.TrimPrefix(strings.ToUpper(name), "TYPE_")
	others := map[string]string{
		"STRING": "BYTES", "FLOAT": "FP32", "FLOAT32": "FP32", "FLOAT64": "FP64", "DOUBLE": "FP64", "FLOAT16": "FP16", "HALF": "FP16", "BFLOAT16": "BF16",
	}
	return Suggest(cmp.Or(others[plain], plain), datatypes())
}

func (v *validator) input(in *Port, path string) {
	if !slices.Contains(datatypes(), in.Datatype) {
		v.errorf(path+".datatype", "Unknown datatype", "%q is no datatype of the Open Inference Protocol.%s", in.Datatype, suggestDatatype(in.Datatype))
	}
	for _, d := range in.Shape {
		if d == 0 || d < -1 {
			v.errorf(path+".shape", "Invalid shape", "A dimension is a positive number, or -1 where it varies; the batch is not part of the shape.")
			return
		}
	}
	if in.Typical != nil && in.Sample == "" {
		if why := Misfit(in.Shape, in.Typical); why != "" {
			v.errorf(path+".typical", "Typical shape out of bounds", "A typical %v for shape %v: %s.", in.Typical, in.Shape, why)
		}
	}
}

func (v *validator) module(p *Pipeline, m *Module, path string) {
	if m.Model != "" && m.Function != "" {
		v.errorf(path+".function", "Two kinds of module", "A module is either a network (model) or a processing step (function).")
	}
	if len(m.Parameters) > 0 && m.Function == "" {
		v.errorf(path+".parameters", "Parameters without a function", "Parameters belong to a function; a network has none.")
	}
	v.served(m, path)
	if m.Model != "" && !strings.Contains(m.Model, "://") {
		v.modelFile(m, path)
	}
	if _, known := EngineNamed(m.EngineName()); known && m.Source() == SourceProfile && len(m.Profile.Points) == 0 && m.ProfileFile == "" {
		v.errorf(path, "Nothing known of the module", "Give the module a model, a function or a profile.")
	}
	if len(m.Inputs) == 0 && !v.missing(path+".inputs") {
		v.errorf(path+".inputs", "No inputs", "A module is fed from an input of the pipeline or from another module: inputs = { name = module.NAME.OUTPUT }.")
	}
	for _, in := range m.Inputs {
		at := path + ".inputs." + in.Name
		for _, from := range in.Sources() {
			v.reference(p, from, at)
		}
		if in.IsConstant() {
			v.plainConstant(p, in.Value, at)
		}
	}
	v.batching(m, path)
	v.fanout(m, path+".fanout")
	if m.IsConditional() {
		v.reference(p, m.When, path+conditionOf(m))
	}
	if m.Gather != "" && m.Gather != GatherAround {
		v.reference(p, Ref{Module: m.Gather}, path+".gather")
	}
	if !sensibleRate(m.Rate) {
		v.errorf(path+".rate", "Invalid rate", "A rate is a number of requests per second, from zero to %.0g.", maxRate)
	}
	v.moduleHardware(m, path)
}

func (v *validator) fanout(m *Module, at string) {
	switch {
	case m.Fanout < 0 || !IsFinite(m.Fanout) || m.Fanout == 0 && m.Scatter:
		v.errorf(at, "Invalid fanout", "A fanout is the mean number of requests per upstream request, above zero.")
	case m.IsConditional() && (!m.Scatter || m.Most != 1 || m.Fanout > 1):
		v.errorf(at, "Invalid fanout", "Beside a condition, the fanout is the share of items in which that holds: above 0 and at most 1, such as fanout = 0.3. To split what comes there, give a module below it the fan-out.")
	case len(m.Items) > 0 && (!m.Scatter || !(m.Items.Mean() > 0) || m.Items.Largest() > MaxItems):
		v.errorf(at, "Invalid fanout", "What was measured of a fanout has some requests per upstream request, and %d at most.", MaxItems)
	case m.Most < 0 || m.Most > MaxItems || m.Most > 0 && !m.Scatter:
		v.errorf(at, "Invalid fanout", "The most requests per upstream request is a whole number from 1 to %d, beside their mean.", MaxItems)
	case m.Most > 0 && float64(m.Most) < m.Fanout:
		v.errorf(at, "Invalid fanout", "%s requests per upstream request on average are more than %d at most; max is no less than mean.", quantity.Number(m.Fanout), m.Most)
	}
}

// points bounds what planning has to look through, in declarations that come without
// files, too.
func (v *validator) points(n int, path string) {
	if n > MaxPoints {
		v.errorf(path+".profile", "Profile too long", "The profile has %d points; it may have %d. Keep the batch sizes that matter, such as powers of two.", n, MaxPoints)
	}
}

// moduleHardware compares the names in the module and its profile with the
// hardware blocks.
func (v *validator) moduleHardware(m *Module, path string) {
	declared := v.hardwareNames
	for _, name := range m.Hardware {
		if !slices.Contains(declared, name) {
			v.errorf(path+".hardware", "Unknown hardware", "No hardware block declares %q.%s", name, Suggest(name, declared))
		}
	}
	if len(declared) == 0 {
		v.errorf(path, "No hardware", "Declare what may run the modules: hardware \"cpu\" { price = 0.05 }.")
		return
	}
	v.points(len(m.Profile.Points), path)
	if len(m.Profile.Points) == 0 {
		return
	}
	usable := 0
	var foreign []string
	for _, at := range m.Profile.Points {
		known := slices.Contains(declared, at.Hardware)
		if known && (len(m.Hardware) == 0 || slices.Contains(m.Hardware, at.Hardware)) {
			usable++
		}
		if !known && !slices.Contains(foreign, at.Hardware) {
			foreign = append(foreign, at.Hardware)
		}
	}
	for _, name := range foreign {
		v.warnf(path+".profile", "Profile of undeclared hardware", "The profile has points on %q, which no hardware block declares; they are not used.%s", name, Suggest(name, declared))
	}
	for _, name := range m.Hardware {
		if !slices.ContainsFunc(m.Profile.Points, func(at Point) bool { return at.Hardware == name }) && slices.Contains(declared, name) {
			v.errorf(path+".profile", "Gap in the profile", "The module may run on %q, but its profile has no point there.", name)
		}
	}
	if usable == 0 && !v.missing(path+".profile") && !v.unread(m.ProfileFile) {
		v.errorf(path+".profile", "Gap in the profile", "The profile has no point on any declared hardware (%s).", Quoted(declared))
	}
}

// reference checks that a tensor's source exists. Which outputs a module has
// is known only with its signature.
func (v *validator) reference(p *Pipeline, r Ref, path string) {
	if r == (Ref{}) {
		return // reported when it was read
	}
	if r.Module == "" {
		if v.g.In[r.Port] == nil {
			var names []string
			for _, in := range p.Inputs {
				names = append(names, in.Name)
			}
			v.errorf(path, "Unknown reference", "The pipeline has no input %q.%s", r.Port, v.suggest(r.Port, names))
		}
		return
	}
	if !v.g.Has(r.Module) {
		v.errorf(path, "Unknown reference", "The pipeline has no module %q.%s", r.Module, v.suggest(r.Module, v.g.Names))
	}
}

// order reports a cycle once at each reference that is part of it.
func (v *validator) order(p *Pipeline, path string) bool {
	_, err := v.g.Order()
	var cycle *CycleError
	if !errors.As(err, &cycle) {
		return true
	}
	around := DrawPath(cycle.Path)
	for i := 1; i < len(cycle.Path); i++ {
		from, to := cycle.Path[i-1], cycle.Path[i]
		for _, in := range v.g.Module(to).Inputs {
			if slices.ContainsFunc(in.Sources(), func(r Ref) bool { return r.Module == from }) {
				v.errorf(path+".module."+to+".inputs."+in.Name, "Modules form a cycle", "%s waits for itself: %s. Take one of these references out.", to, around)
				break
			}
		}
		if m := v.g.Module(to); m.When.Module == from {
			v.errorf(path+".module."+to+conditionOf(m), "Modules form a cycle", "%s waits for itself: %s. Take one of these references out.", to, around)
		}
	}
	return false
}

// conditionOf is where a module says its condition.
func conditionOf(m *Module) string {
	if m.Else {
		return ".else"
	}
	return ".when"
}

// reachable finds modules that no request reaches, and modules whose results
// nobody reads.
func (v *validator) reachable(p *Pipeline, path string) {
	order, _ := v.g.Order()
	fed := map[string]bool{}
	for _, i := range order {
		for _, r := range p.Modules[i].Reads() {
			// A reference to nowhere is a finding of its own.
			if r.Module == "" || fed[r.Module] || !v.g.Has(r.Module) {
				fed[v.g.Names[i]] = true
			}
		}
	}
	used := map[string]bool{}
	for _, o := range p.Outputs {
		used[o.From.Module] = true
	}
	reads := map[Ref]bool{}
	for i := range p.Modules {
		for _, r := range p.Modules[i].Reads() {
			reads[r] = true
		}
	}
	for _, o := range p.Outputs {
		reads[o.From] = true
	}
	if v.lost(p) {
		return // what a reference to nowhere was meant to use cannot be told
	}
	for _, i := range slices.Backward(order) {
		if used[v.g.Names[i]] {
			for _, up := range v.g.Up[i] {
				used[v.g.Names[up]] = true
			}
		}
	}
	for _, in := range p.Inputs {
		if !reads[Ref{Port: in.Name}] {
			v.warnf(path+".input."+in.Name, "Unused input", "Nothing reads %q, which every request must bring: refer to it as input.%s, or take it out.", in.Name, in.Name)
		}
	}
	for _, i := range order {
		name := v.g.Names[i]
		at := path + ".module." + name
		switch {
		case !fed[name] && len(p.Modules[i].Inputs) > 0:
			v.errorf(at, "Unreachable module", "No input of the pipeline reaches %q.", name)
		case !used[name] && len(p.Outputs) > 0:
			v.errorf(at, "Unused module", "No output needs %q: refer to it in an output block, or take it out.", name)
		}
	}
}

// lost reports whether some reference points at a module that is not there.
func (v *validator) lost(p *Pipeline) bool {
	gone := func(r Ref) bool { return r.Module != "" && !v.g.Has(r.Module) || r == Ref{} }
	for _, o := range p.Outputs {
		if gone(o.From) {
			return true
		}
	}
	for _, m := range p.Modules {
		if slices.ContainsFunc(m.Reads(), gone) {
			return true
		}
	}
	return false
}

// fastest compares the objective with the path that takes longest even when
// every module runs alone on its fastest device.
func (v *validator) fastest(p *Pipeline, path string) {
	modules, need, err := quickest(p).FastestPath(v.doc.Hardware)
	planned := p.Planned().SLO
	if err != nil || p.SLO <= 0 || need <= planned {
		return
	}
	if need <= p.SLO {
		v.errorf(path+".slo", "SLO cannot be met", "SLO %v cannot be met with a headroom of %s: the fastest path %s needs %s of the %s that are left. Allow more time, or keep less headroom.",
			p.SLO, PercentText(p.Kept()), strings.Join(modules, " -> "), quantity.Duration(need), quantity.Duration(planned))
		return
	}
	v.errorf(path+".slo", "SLO cannot be met", "SLO %v cannot be met: the fastest path %s needs %s. Allow more time, or profile faster hardware.",
		p.SLO, DrawPath(modules), quantity.Duration(need))
}
