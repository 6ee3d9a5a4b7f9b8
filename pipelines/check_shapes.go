package pipelines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shapes compares what modules consume with what feeds them, as far as their
// signatures are known.
func (v *validator) shapes(p *Pipeline, path string) {
	v.doubted = map[Ref]bool{}
	signatures := map[string]Signature{}
	for i := range p.Modules {
		m := &p.Modules[i]
		if m.Function == "" && v.modelless[m.Model] {
			continue // it was reported, and cannot be read
		}
		sig, err := v.signatureOf(m)
		if err != nil {
			at := path + ".module." + m.Name
			if m.Function != "" {
				v.errorf(at+".function", "Unusable function", "%v", err)
			} else {
				v.errorf(at+".model", "Unusable model", "%v", err)
			}
			continue
		}
		if sig.Unchecked != "" {
			v.warnf(path+".module."+m.Name+".model", "Not checked here", "%s.", sig.Unchecked)
		}
		signatures[m.Name] = sig
		v.variantShapes(m, sig, path+".module."+m.Name)
	}
	scopes := v.g.Scopes()
	for i := range p.Modules {
		v.typical(&p.Modules[i], signatures[p.Modules[i].Name], path+".module."+p.Modules[i].Name)
		v.nesting(&p.Modules[i], scopes, path+".module."+p.Modules[i].Name)
		v.moduleShapes(&p.Modules[i], signatures, scopes, path+".module."+p.Modules[i].Name)
	}
	for _, o := range p.Outputs {
		v.source(o.From, signatures, path+".output."+o.Name+".value")
	}
	for i := range p.Inputs {
		v.assumed(p, &p.Inputs[i], path+".input."+p.Inputs[i].Name+".shape")
	}
}

// assumed reports a shape that is measured with, and which nobody has said.
func (v *validator) assumed(p *Pipeline, in *Port, at string) {
	if in.Typical != nil || !slices.Contains(in.Shape, -1) {
		return
	}
	for i := range p.Modules {
		m := &p.Modules[i]
		if m.Function != "" || len(m.Profile.Points) > 0 || m.ProfileFile != "" {
			continue
		}
		for _, b := range m.Inputs {
			if b.From == (Ref{Port: in.Name}) && !b.IsConstant() && m.Typical[b.Name] == nil {
				v.warnf(at, "No typical shape", "The size of a typical %q is not declared, so %q is measured and warmed up with %v. Declare what requests bring, or the plan is made for another load: typical = [...].", in.Name, m.Name, Closed(in.Shape, p.OpenRows()))
				return
			}
		}
	}
}

// model is all that the signature of a module depends on that runs a file.
type model struct {
	path, engine string
	profiled     bool
	use          string // what the module says of its batch, and which inputs it feeds how
}

// signatureOf asks once for each model, and for each pool: what fits depends on its sizes.
func (v *validator) signatureOf(m *Module) (Signature, error) {
	key := model{m.Model, m.Engine, len(m.Profile.Points) > 0, useOf(m)}
	shared := m.Model != "" && m.Function == "" && len(m.Command) == 0 && !m.Sized
	if sig, known := v.signatures[key]; known && shared {
		return sig, nil
	}
	sig, err := v.signature(*m)
	if err == nil && shared {
		v.signatures[key] = sig
	}
	return sig, err
}

func useOf(m *Module) string {
	var feeds []string
	for _, b := range m.Inputs {
		feeds = append(feeds, fmt.Sprintf("%q:%t", b.Name, b.IsConstant()))
	}
	slices.Sort(feeds)
	return fmt.Sprint(m.Unbatched, m.State, m.Loops, m.BatchAxis, feeds)
}

// nesting keeps fan-outs from standing in one another without bound.
func (v *validator) nesting(m *Module, scopes map[string][]string, path string) {
	if m.Scatter && len(CommonScopeOf(m, scopes)) >= MaxNesting {
		v.errorf(path+".fanout", "Fan-outs nested too deeply", "%q fans out within %d others; at most %d may stand in one another.", m.Name, MaxNesting, MaxNesting)
	}
}

func (v *validator) moduleShapes(m *Module, all map[string]Signature, scopes map[string][]string, path string) {
	sig, known := all[m.Name]
	known = known && len(sig.Inputs) > 0
	var names []string
	for _, in := range sig.Inputs {
		names = append(names, in.Name)
	}
	if m.IsConditional() {
		v.source(m.When, all, path+conditionOf(m))
	}
	scattered := false
	for _, b := range m.Inputs {
		at := path + ".inputs." + b.Name
		i := slices.Index(names, b.Name)
		if known && i < 0 {
			v.errorf(at, "Unknown input", "%s has no input %q.%s", what(m), b.Name, v.suggest(b.Name, names))
		}
		for _, r := range b.Sources() {
			switch from, ok := v.source(r, all, at); {
			case i < 0:
			case ok:
				scattered = v.fits(scopes, m, b, r, from, sig.Inputs[i], at) || scattered
			default:
				scattered = true // cannot be told
			}
		}
		if b.IsConstant() && i >= 0 {
			v.constant(m, b, sig.Inputs[i], at)
		}
	}
	if !known {
		return
	}
	v.loops(m, sig, path+".state")
	for i, name := range names {
		if sig.Inputs[i].Loop == "" && !slices.ContainsFunc(m.Inputs, func(b Binding) bool { return b.Name == name }) {
			v.errorf(path+".inputs", "Missing input", "%s needs an input %q, which nothing feeds.", what(m), name)
		}
	}
	v.axes(m, sig, path+".batch_axis")
	if m.Scatter && !m.IsConditional() && !scattered {
		v.errorf(path+".fanout", "Nothing to fan out", "No input of %q has one dimension more than the module takes, so there is nothing to split into requests.", m.Name)
	}
}

// constant checks that a constant can be what the input takes.
func (v *validator) constant(m *Module, b Binding, p Port, at string) {
	if _, err := ConstantAt(b.Value, p); err != nil {
		v.errorf(at, "Constant that does not fit", "Input %q of %s takes %s %v: %v.", b.Name, lower(what(m)), p.Datatype, p.Shape, err)
	}
}

// axes checks that a batch axis is said of inputs and outputs that there are.
func (v *validator) axes(m *Module, sig Signature, at string) {
	var names []string
	for _, p := range slices.Concat(sig.Inputs, sig.Outputs) {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.BatchAxis)) {
		if !slices.Contains(names, name) {
			v.errorf(at, "Unknown name", "%s has no input or output %q.%s", what(m), name, Suggest(name, names))
		}
	}
}

func what(m *Module) string {
	if m.Function != "" {
		return fmt.Sprintf("The function %q", m.Function)
	}
	return fmt.Sprintf("The model of %q", m.Name)
}

// source finds the tensor that a reference points at; ok is false when it is
// not known or was reported.
func (v *validator) source(r Ref, all map[string]Signature, at string) (port Port, ok bool) {
	if r.Module == "" {
		if in := v.g.In[r.Port]; in != nil {
			return *in, true
		}
		return Port{}, false
	}
	sig, known := all[r.Module]
	if why := sig.Unusable[r.Port]; why != "" {
		v.errorf(at, "Unusable output", "Output %q of module %q %s.", r.Port, r.Module, why)
		return Port{}, false
	}
	if !known || len(sig.Outputs) == 0 {
		return Port{}, false
	}
	if why := sig.Doubts[r.Port]; why != "" && !v.doubted[r] {
		v.doubted[r] = true
		v.warnf(at, "Rows that may be no batch", "Output %q of module %q %s. If that is so, no batch can be answered. Say what they are: batch_axis = { %s = \"none\" } where all requests of a batch share them, { %s = 0 } where each request has one after all, or batching = false.", r.Port, r.Module, why, r.Port, r.Port)
	}
	var names []string
	for _, o := range sig.Outputs {
		if o.Name == r.Port {
			return o, o.Datatype != ""
		}
		names = append(names, o.Name)
	}
	v.errorf(at, "Unknown reference", "Module %q has no output %q.%s", r.Module, r.Port, v.suggest(r.Port, names))
	return Port{}, false
}

// fits compares a tensor with the input that it feeds, after gathering and
// scattering, and reports whether the input is scattered.
func (v *validator) fits(scopes map[string][]string, m *Module, b Binding, r Ref, from, to Port, at string) bool {
	if to.Datatype == "" {
		return true
	}
	shape := slices.Clone(from.Shape)
	// An input from a deeper scope arrives gathered along one new axis.
	if m.Gathers(b, r, scopes) {
		shape = append([]int64{-1}, shape...)
	}
	split := m.Scatter && !m.IsConditional() && len(shape) == len(to.Shape)+1
	if split {
		if rows := shape[0]; rows >= 0 && (m.Fanout != float64(rows) || m.MostItems() != int(rows)) {
			v.errorf(at, "Fan-out of a fixed dimension", "%s always has %d rows, so that this is how many requests %q gets of it: write fanout = %d.", r, rows, m.Name, rows)
		}
		shape = shape[1:]
	}
	if from.Datatype != to.Datatype {
		v.errorf(at, "Datatypes differ", "%s is %s, but %s takes %s at input %q.", r, from.Datatype, lower(what(m)), to.Datatype, b.Name)
		return split
	}
	if !SameShape(shape, to.Shape) {
		hint := ""
		if !m.Scatter && len(shape) == len(to.Shape)+1 && SameShape(shape[1:], to.Shape) {
			hint = " Give the module a fanout to run it once for each row."
		}
		if b.From.Module == "" && !m.Scatter && len(shape) == len(to.Shape)+1 && (shape[0] == 1 || shape[0] == -1) && SameShape(shape[1:], to.Shape) {
			hint = fmt.Sprintf(" A shape is that of one request, without the batch: shape = %s. Or, where a request brings several rows, give the module a fanout.", strings.ReplaceAll(fmt.Sprint(shape[1:]), " ", ", "))
		}
		if len(shape)+1 == len(to.Shape) && to.Shape[0] == -1 && len(CommonScopeOf(m, scopes)) > 0 {
			hint = " Set gather = true to run it once for all rows."
		}
		v.errorf(at, "Shapes differ", "%s has shape %v, but %s takes %v at input %q.%s", r, shape, lower(what(m)), to.Shape, b.Name, hint)
	}
	return split
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// typical checks the typical shapes of a module's inputs, against the shapes of
// its signature where that is known.
func (v *validator) typical(m *Module, sig Signature, path string) {
	var names []string
	for _, b := range m.Inputs {
		names = append(names, b.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Typical)) {
		typical := m.Typical[name]
		if !slices.Contains(names, name) {
			v.errorf(path+".typical", "Unknown input", "The module has no input %q.%s", name, Suggest(name, names))
			continue
		}
		shape := slices.Repeat([]int64{-1}, len(typical))
		if i := slices.IndexFunc(sig.Inputs, func(p Port) bool { return p.Name == name && p.Datatype != "" }); i >= 0 {
			shape = sig.Inputs[i].Shape
		}
		if why := Misfit(shape, typical); why != "" {
			v.errorf(path+".typical", "Typical shape out of bounds", "A typical %v for input %q of shape %v: %s.", typical, name, shape, why)
		}
	}
}

// batching checks what a module says of its batch dimension.
func (v *validator) batching(m *Module, path string) {
	if m.Unbatched {
		v.unbatched(m, path)
	}
	if len(m.BatchAxis) == 0 {
		return
	}
	at := path + ".batch_axis"
	for _, name := range slices.Sorted(maps.Keys(m.BatchAxis)) {
		if axis := m.BatchAxis[name]; axis != NoBatchAxis && (axis < 0 || axis >= MaxRank) {
			v.errorf(at, "Invalid batch axis", "The batch axis of %q is %d; dimensions are counted from 0.", name, axis)
		}
	}
	engine, known := EngineNamed(m.Engine)
	switch {
	case m.Function != "":
		v.errorf(at, "Batch axis of a function", "A function takes one request at a time and has no batch dimension.")
	case len(m.Command) > 0 || IsRemote(m.Model):
		v.errorf(at, "Batch axis of a server", "A server is sent batches along the first dimension, or one request at a time (batching = false); another batch axis is known to the onnxruntime engines only.")
	case known && engine.Takes == SourceFile && !engine.AnyAxis:
		v.errorf(at, "Batch axis without onnxruntime", "The engine %q takes batches along the first dimension only; set engine = \"onnxruntime\".", m.Engine)
	}
}

func (v *validator) unbatched(m *Module, path string) {
	at := path + ".batching"
	if m.Function != "" {
		v.errorf(at, "Batching of a function", "A function takes one request at a time anyway; batching is for networks.")
	}
	if len(m.BatchAxis) > 0 {
		v.errorf(path+".batch_axis", "Batch axis without batches", "With batching = false no tensor has a batch dimension; take one of the two out.")
	}
	if slices.ContainsFunc(m.Batches, func(n int) bool { return n != 1 }) {
		v.errorf(path+".batches", "Batches without batching", "With batching = false the only batch size is 1; take batches out.")
	}
	if slices.ContainsFunc(m.Profile.Points, func(p Point) bool { return p.Batch > 1 }) {
		v.errorf(at, "Batches without batching", "With batching = false the only batch size is 1, but the profile has larger ones.")
	}
}

// plainConstant checks a constant as far as it can be without the input that it is
// for. A text that is a name in the pipeline was meant for a reference.
func (v *validator) plainConstant(p *Pipeline, value any, at string) {
	name, _ := value.(string)
	switch {
	case p.Module(name) != nil:
		v.errorf(at, "Not a reference", "Refer to an output of the module as module.%s.OUTPUT; in quotes it is a text.", name)
	case p.Input(name) != nil:
		v.errorf(at, "Not a reference", "Refer to the input of the pipeline as input.%s; in quotes it is a text.", name)
	default:
		if _, err := ConstantAt(value, Port{}); err != nil {
			v.errorf(at, "Invalid constant", "%s.", sentence(err))
		}
	}
}
