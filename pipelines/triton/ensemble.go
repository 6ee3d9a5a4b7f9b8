package triton

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
)

// assumedRows is how many rows stand for a number that only requests know; it is what is assumed
// of tensors elsewhere, too.
const assumedRows = 4

// value is a tensor on its way through a pipeline.
type value struct {
	ref      pipelines.Ref
	datatype string
	shape    []int64 // nil where it is not known
	scope    string  // the module that split what it was made of; empty for whole requests
}

// build makes one pipeline. Its errors end it.
type build struct {
	*importer
	p      pipelines.Pipeline
	served []Served
	failed bool // its findings say why
	stack  []string
}

// pipeline makes one of an ensemble, or of a model by itself.
func (im *importer) pipeline(m *model) {
	b := &build{importer: im}
	b.p = pipelines.Pipeline{Name: free(nameOf(m.name), func(s string) bool {
		return slices.ContainsFunc(im.out.Document.Pipelines, func(p pipelines.Pipeline) bool { return p.Name == s })
	}), SLO: im.SLO, Rate: im.Rate, Arrivals: pipelines.ArrivalsPoisson}
	if b.p.Name != m.name {
		b.tell(different, m.at("name"), "The service is called %q: names have letters, digits, dots, hyphens and underscores.", b.p.Name)
	}
	if m.backend == backendEnsemble {
		b.whole(m)
	} else {
		b.single(m)
	}
	if b.failed || len(b.p.Outputs) == 0 {
		im.out.LeftOut = append(im.out.LeftOut, m.name)
		return
	}
	b.prune(m)
	b.typical()
	b.stream()
	im.out.Document.Pipelines = append(im.out.Document.Pipelines, b.p)
	im.out.Served = append(im.out.Served, b.served...)
}

// fail ends the pipeline with an error.
func (b *build) fail(summary string, at *hcl.Range, format string, args ...any) {
	b.failed = true
	b.problem(summary, at, format, args...)
}

// leave ends the pipeline with a warning.
func (b *build) leave(at *hcl.Range, format string, args ...any) {
	b.failed = true
	b.tell(leftOut, at, format, args...)
}

// tensor is an input or output of a configuration.
type tensor interface {
	GetName() string
	GetDataType() modelconfig.DataType
	GetDims() []int64
	GetReshape() *modelconfig.ModelTensorReshape
}

// port is a tensor as a network has it for one request, whose batch is the first of its dims where
// the network says so.
func port(t tensor, stripped bool) pipelines.Port {
	shape := append([]int64{}, t.GetDims()...)
	if t.GetReshape() != nil {
		shape = append([]int64{}, t.GetReshape().GetShape()...)
	}
	if stripped && len(shape) > 0 {
		shape = shape[1:]
	}
	return pipelines.Port{Name: t.GetName(), Datatype: datatype(t.GetDataType()), Shape: shape}
}

// datatypes checks that tensors have one, which is known.
func (c *config) datatypes() (diags hcl.Diagnostics) {
	check := func(path string, n int, field, name string, d modelconfig.DataType) {
		if _, known := modelconfig.DataType_name[int32(d)]; !known || d == modelconfig.DataType_TYPE_INVALID {
			diags = append(diags, files.Problem("Unknown datatype", fmt.Sprintf("%q has the data_type %v; name one of the schema, such as TYPE_FP32.", name, d), c.within(path, n, field, "")))
		}
	}
	for i, t := range c.Input {
		check("input", i, "data_type", t.Name, t.DataType)
	}
	for i, t := range c.Output {
		check("output", i, "data_type", t.Name, t.DataType)
	}
	for i, t := range c.GetSequenceBatching().GetControlInput() {
		for _, control := range t.Control {
			if control.DataType != modelconfig.DataType_TYPE_INVALID { // which stands for the one of its values
				check("sequence_batching.control_input", i, "control.data_type", t.Name, control.DataType)
			}
		}
	}
	for i, t := range c.GetSequenceBatching().GetState() {
		check("sequence_batching.state", i, "data_type", t.InputName, t.DataType)
	}
	return diags
}

// datatype is the one of the protocol.
func datatype(d modelconfig.DataType) string {
	if d == modelconfig.DataType_TYPE_STRING {
		return "BYTES"
	}
	return d.String()[len("TYPE_"):]
}

// network is a model as a module computes it.
type network struct {
	*model
	batched         bool // tensors have a batch dimension before those of the ports
	inputs, outputs []pipelines.Port
	optional        map[string]bool

	// Of one that keeps state between the requests of a sequence.
	state     bool
	loops     map[string]string // outputs that go back to inputs, by input
	constants []pipelines.Binding

	controls []string // inputs that Triton makes
}

// network finds out what a model takes and gives, and whether its batch is among its dims: of one
// without max_batch_size whose first dimensions all vary or, for an ensemble with batches, are 1.
func (b *build) network(m *model, among bool) network {
	n := network{model: m, batched: m.MaxBatchSize > 0, optional: map[string]bool{}}
	var all []tensor
	for _, t := range m.Input {
		all = append(all, t)
		n.optional[t.Name] = t.Optional
	}
	for _, t := range m.Output {
		all = append(all, t)
	}
	stripped := !n.batched && len(all) > 0 && !slices.ContainsFunc(all, func(t tensor) bool {
		d := t.GetDims()
		return len(d) < 1 || d[0] != -1 && !(among && d[0] == 1) || !among && (len(d) < 2 || m.backend != backendONNX)
	})
	n.batched = n.batched || stripped
	for _, t := range m.Input {
		n.inputs = append(n.inputs, port(t, stripped))
	}
	for _, t := range m.Output {
		n.outputs = append(n.outputs, port(t, stripped))
	}
	if len(n.inputs) == 0 || len(n.outputs) == 0 {
		b.complete(&n)
	}
	b.kept(&n)
	return n
}

// complete reads from its file what a network takes and gives, as Triton does where the
// configuration does not say.
func (b *build) complete(n *network) {
	if n.backend != backendONNX || b.Signatures == nil {
		return
	}
	s, err := b.Signatures(pipelines.Module{Name: n.name, Model: n.path, Fanout: 1})
	if err != nil || len(s.Outputs) == 0 {
		return
	}
	n.batched = true
	if len(n.inputs) == 0 {
		n.inputs = s.Inputs
	}
	if len(n.outputs) == 0 {
		n.outputs = s.Outputs
	}
}

// input declares one of the pipeline.
func (b *build) input(p pipelines.Port, at *hcl.Range) value {
	v := value{datatype: p.Datatype, shape: p.Shape}
	name := p.Name
	p.Name = free(nameOf(name), func(s string) bool { return b.p.Input(s) != nil })
	if p.Name != name {
		b.tell(different, at, "Clients call the input %q: %q is no name here.", p.Name, name)
	}
	v.ref.Port = p.Name
	b.p.Inputs = append(b.p.Inputs, p)
	return v
}

// output declares one of the pipeline.
func (b *build) output(name string, v value, at *hcl.Range) {
	as := free(nameOf(name), func(s string) bool {
		return slices.ContainsFunc(b.p.Outputs, func(o pipelines.Output) bool { return o.Name == s })
	})
	if as != name {
		b.tell(different, at, "Clients call the output %q: %q is no name here.", as, name)
	}
	b.p.Outputs = append(b.p.Outputs, pipelines.Output{Name: as, From: v.ref})
}

// single makes a pipeline of one model.
func (b *build) single(m *model) {
	if b.left[m.name] != "" {
		b.failed = true
		return
	}
	n := b.network(m, false)
	if len(n.inputs) == 0 || len(n.outputs) == 0 {
		b.leave(m.at("name"), "%s: its configuration has no inputs and outputs, and they cannot be read from %s; name them.", m.name, m.path)
		return
	}
	values := map[string]value{}
	mapped := map[string]string{}
	var optional []string
	for _, in := range n.inputs {
		at := m.at("input.name")
		if p := m.find("input.name", in.Name); p != nil {
			at = &p.at
		}
		if n.optional[in.Name] && len(n.inputs) > 1 {
			optional = append(optional, in.Name)
			continue
		}
		values[in.Name], mapped[in.Name] = b.input(in, at), in.Name
	}
	if len(optional) > 0 {
		b.tell(different, m.at("input.optional"), "%s: optional inputs are left out: %s. All requests of a pipeline bring the same inputs; declare those that yours bring.", m.name, strings.Join(optional, ", "))
	}
	out := map[string]string{}
	for _, o := range n.outputs {
		out[o.Name] = o.Name
	}
	if b.place(n, mapped, out, values, true, m.at("name")); b.failed {
		return
	}
	for _, o := range n.outputs {
		b.output(o.Name, values[o.Name], m.at("output.name"))
	}
	b.reshaped(m)
}

// reshaped reports what clients send in another shape than to Triton. With a batch dimension or
// without is the same to gateways.
func (b *build) reshaped(m *model) {
	for _, t := range m.Input {
		if t.Reshape != nil {
			b.tell(different, m.at("input.reshape"), "%s: clients send %q as the network takes it, %v.", m.name, t.Name, t.Reshape.GetShape())
		}
	}
}

// whole makes a pipeline of an ensemble.
func (b *build) whole(m *model) {
	values := map[string]value{}
	for _, in := range m.Input {
		at := m.at("input.name")
		if p := m.find("input.name", in.Name); p != nil {
			at = &p.at
		}
		values[in.Name] = b.input(port(in, false), at)
	}
	b.steps(m, values)
	if b.failed {
		return
	}
	for _, out := range m.Output {
		at := m.at("output.name")
		if p := m.find("output.name", out.Name); p != nil {
			at = &p.at
		}
		v, made := values[out.Name]
		if !made {
			b.fail("Nothing makes an output", at, "No step of %s has %q in its output_map.%s", m.name, out.Name, pipelines.Suggest(out.Name, sortedKeys(values)))
			return
		}
		b.output(out.Name, v, at)
	}
}

// steps adds the steps of an ensemble, in an order in which all that one takes is made before, to
// the tensors that are there.
func (b *build) steps(m *model, values map[string]value) {
	if slices.Contains(b.stack, m.name) {
		b.fail("Cycle", m.at(stepPath), "The ensemble %q is a step of itself: %v.", m.name, append(b.stack, m.name))
		return
	}
	b.stack = append(b.stack, m.name)
	defer func() { b.stack = b.stack[:len(b.stack)-1] }()
	all := m.GetEnsembleScheduling().GetStep()
	makes := map[string]int{}
	for i, s := range all {
		for _, key := range sortedKeys(s.OutputMap) {
			tensor := s.OutputMap[key]
			if _, twice := makes[tensor]; twice || values[tensor].datatype != "" {
				b.fail("Made twice", m.step(i, "output_map.value", tensor), "The tensor %q of %s is an input, or another step makes it already.", tensor, m.name)
				return
			}
			makes[tensor] = i
		}
	}
	left := make([]int, len(all))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 && !b.failed {
		next := slices.IndexFunc(left, func(i int) bool { return missing(all[i], values) == "" })
		if next < 0 {
			b.stuck(m, left, makes, values)
			return
		}
		b.step(m, left[next], values)
		left = slices.Delete(left, next, next+1)
	}
}

// stuck reports why none of the steps that are left can run.
func (b *build) stuck(m *model, left []int, makes map[string]int, values map[string]value) {
	all := m.GetEnsembleScheduling().GetStep()
	for _, i := range left {
		for _, key := range sortedKeys(all[i].InputMap) {
			tensor := all[i].InputMap[key]
			if !contains(makes, tensor) && !contains(values, tensor) {
				b.fail("Unknown tensor", m.step(i, "input_map.value", tensor), "No input and no step of %s makes %q.%s", m.name, tensor, pipelines.Suggest(tensor, append(sortedKeys(values), sortedKeys(makes)...)))
				return
			}
		}
	}
	tensor := missing(all[left[0]], values)
	b.fail("Cycle", m.step(left[0], "input_map.value", tensor), "The steps of %s wait for each other: %s needs %q, which comes of what it makes.", m.name, all[left[0]].ModelName, tensor)
}

func contains[V any](of map[string]V, key string) bool { _, ok := of[key]; return ok }

// missing is a tensor that a step needs and that is not there; empty for none.
func missing(s *modelconfig.ModelEnsembling_Step, values map[string]value) string {
	for _, key := range sortedKeys(s.InputMap) {
		if _, ok := values[s.InputMap[key]]; !ok {
			return s.InputMap[key]
		}
	}
	return ""
}

// step adds one step of an ensemble.
func (b *build) step(m *model, i int, values map[string]value) {
	s := m.GetEnsembleScheduling().GetStep()[i]
	of := b.repository.model(s.ModelName)
	switch {
	case of == nil:
		b.failed = true // said already
		return
	case b.left[of.name] != "":
		b.leave(m.step(i, "model_name", ""), "%s: its step %s is left out.", m.name, of.name)
		return
	case of.backend == backendEnsemble:
		b.nested(m, of, i, values)
		return
	}
	if s.ModelVersion > 0 && int(s.ModelVersion) != of.version {
		other := *of
		other.version = int(s.ModelVersion)
		within := filepath.Join(of.folder, strconv.Itoa(other.version))
		if _, err := os.Stat(within); err != nil {
			b.fail("No such version", m.step(i, "model_version", ""), "%s has no folder %d.", of.folder, other.version)
			return
		}
		other.path = filepath.Join(within, strings.TrimPrefix(of.path, filepath.Join(of.folder, strconv.Itoa(of.version))))
		b.diags = append(b.diags, other.absent(m.step(i, "model_version", ""))...)
		of = &other
	}
	n := b.network(of, m.MaxBatchSize > 0)
	if m.MaxBatchSize > 0 && !n.batched {
		b.leave(m.step(i, "model_name", ""), "%s has batches (max_batch_size), and its step %s takes one request at a time, of fixed first dimensions.", m.name, of.name)
		return
	}
	for _, key := range sortedKeys(s.InputMap) {
		if k := slices.IndexFunc(n.inputs, func(p pipelines.Port) bool { return p.Name == key }); k < 0 && len(n.inputs) > 0 {
			b.fail("Unknown input", m.step(i, "input_map.key", key), "%s has no input %q.%s", of.name, key, pipelines.Suggest(key, portNames(n.inputs)))
		} else if v := values[s.InputMap[key]]; k >= 0 && v.datatype != "" && v.datatype != n.inputs[k].Datatype {
			b.fail("Datatypes differ", m.step(i, "input_map.key", key), "The input %q of %s is %s, and %q is %s.", key, of.name, n.inputs[k].Datatype, s.InputMap[key], v.datatype)
		}
	}
	for _, key := range sortedKeys(s.OutputMap) {
		if len(n.outputs) > 0 && !slices.Contains(portNames(n.outputs), key) {
			b.fail("Unknown output", m.step(i, "output_map.key", key), "%s has no output %q.%s", of.name, key, pipelines.Suggest(key, portNames(n.outputs)))
		}
	}
	for _, in := range n.inputs {
		switch {
		case s.InputMap[in.Name] != "" || n.optional[in.Name]:
		case slices.Contains(n.controls, in.Name):
			b.leave(m.step(i, "model_name", ""), "%s: its step %s has the control input %q, which clients would have to send; make it an input of the ensemble.", m.name, of.name, in.Name)
			return
		default:
			b.fail("Input without a tensor", m.step(i, "model_name", ""), "The step %s needs its input %q in input_map.", of.name, in.Name)
		}
	}
	if !b.failed {
		b.place(n, s.InputMap, s.OutputMap, values, m.MaxBatchSize > 0, m.step(i, "model_name", ""))
	}
}

func portNames(ports []pipelines.Port) (all []string) {
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return all
}

// nested adds the steps of an ensemble that is a step.
func (b *build) nested(around, m *model, i int, values map[string]value) {
	s := around.GetEnsembleScheduling().GetStep()[i]
	if (around.MaxBatchSize > 0) != (m.MaxBatchSize > 0) {
		b.leave(around.step(i, "model_name", ""), "%s: of it and its step %s, one has batches (max_batch_size) and one has none.", around.name, m.name)
		return
	}
	inner := map[string]value{}
	for _, in := range m.Input {
		v, given := values[s.InputMap[in.Name]]
		if !given {
			b.fail("Input without a tensor", around.step(i, "model_name", ""), "The step %s needs its input %q in input_map.", m.name, in.Name)
			return
		}
		inner[in.Name] = v
	}
	b.steps(m, inner)
	for _, key := range sortedKeys(s.OutputMap) {
		v, made := inner[key]
		if !made && !b.failed {
			b.fail("Unknown output", around.step(i, "output_map.key", key), "%s has no output %q.%s", m.name, key, pipelines.Suggest(key, sortedKeys(inner)))
		}
		values[s.OutputMap[key]] = v
	}
}

// mostModules bounds a pipeline: an ensemble whose steps are ensembles may have 2 to the power of
// its depth.
const mostModules = 1000

// place adds a module that takes the tensors and adds those that it makes. Where the pipeline has
// batches, requests are rows of tensors; else tensors are whole, and a module with batches splits
// them into rows.
func (b *build) place(n network, takes, gives map[string]string, values map[string]value, batches bool, at *hcl.Range) {
	if b.computed(n.model) == ByTriton && !pipelines.IsName(n.name) {
		b.leave(at, "%q cannot stand in the address of a model on a Triton; rename it there.", n.name)
		return
	}
	if len(b.p.Modules) == mostModules {
		b.fail("Too many modules", at, "%q has more than %d steps, those of ensembles in it included.", b.p.Name, mostModules)
		return
	}
	name := free(nameOf(n.name), func(s string) bool { return b.p.Module(s) != nil })
	m := b.module(n.model, name, takes)
	m.Unbatched, m.State, m.Loops = !n.batched, n.state, n.loops
	if m.Unbatched {
		m.Batches = nil
	}
	scope, whole, rows := "", false, int64(-1)
	for _, key := range sortedKeys(takes) {
		v := values[takes[key]]
		m.Inputs = append(m.Inputs, pipelines.Binding{Name: key, From: v.ref})
		if v.scope == "" {
			if whole = true; len(v.shape) > 0 && rows < 0 {
				rows = v.shape[0]
			}
			continue
		}
		if scope != "" && scope != v.scope {
			b.leave(at, "%s joins rows that different steps have split; rows are not matched by their places here.", n.name)
			return
		}
		scope = v.scope
	}
	switch {
	case batches:
	case n.batched && scope != "" && whole:
		b.leave(at, "%s joins rows of a tensor with those that a step has split already; rows are not matched by their places here.", n.name)
		return
	case n.batched && scope == "":
		m.Scatter, m.Fanout, scope = true, float64(rows), name
		if rows < 1 {
			m.Fanout = assumedRows
			b.tell(assumed, at, "%s runs once for each row of what it gets; how many there are is not known, and fanout = %d stands for it. Set the mean, or { mean = ..., max = ... }.", n.name, assumedRows)
		}
	case !n.batched && scope != "":
		if scope = ""; !whole {
			m.Gather = pipelines.GatherAround
		}
	}
	if m.State && (m.Scatter || scope != "") {
		b.leave(at, "%s keeps state, and would run once for each row of a tensor: state is one a frame.", n.name)
		return
	}
	for _, o := range n.outputs {
		if tensor, used := gives[o.Name]; used {
			values[tensor] = value{ref: pipelines.Ref{Module: name, Port: o.Name}, datatype: o.Datatype, shape: o.Shape, scope: scope}
		}
	}
	if len(n.outputs) == 0 {
		for _, key := range sortedKeys(gives) {
			values[gives[key]] = value{ref: pipelines.Ref{Module: name, Port: key}, scope: scope}
		}
	}
	m.Inputs = append(m.Inputs, n.constants...)
	m.Typical = n.warmup(m.Inputs)
	b.p.Modules = append(b.p.Modules, m)
	b.served = append(b.served, Served{Pipeline: b.p.Name, Module: name, Model: n.name, Version: n.version, Backend: n.backend, By: b.computed(n.model)})
}

// warmup are the shapes of the inputs that vary, as the model's warm-up has them.
func (n network) warmup(inputs []pipelines.Binding) map[string][]int64 {
	var out map[string][]int64
	for _, in := range n.inputs {
		bound := slices.ContainsFunc(inputs, func(x pipelines.Binding) bool { return x.Name == in.Name })
		for _, w := range n.ModelWarmup {
			if d := w.Inputs[in.Name].GetDims(); bound && slices.Contains(in.Shape, -1) && pipelines.Misfit(in.Shape, d) == "" {
				if out == nil {
					out = map[string][]int64{}
				}
				out[in.Name] = d
			}
		}
	}
	return out
}

// typical takes for the inputs of the pipeline that vary what the modules fix, or their warm-ups.
func (b *build) typical() {
	for i := range b.p.Inputs {
		in := &b.p.Inputs[i]
		for _, m := range b.p.Modules {
			for _, bound := range m.Inputs {
				if bound.From == (pipelines.Ref{Port: in.Name}) && m.Typical[bound.Name] != nil && pipelines.Misfit(in.Shape, m.Typical[bound.Name]) == "" {
					in.Typical = m.Typical[bound.Name]
				}
			}
		}
	}
}

// prune takes out modules whose outputs nothing uses.
func (b *build) prune(m *model) {
	for {
		used := map[string]bool{}
		for _, o := range b.p.Outputs {
			used[o.From.Module] = true
		}
		for _, x := range b.p.Modules {
			for _, r := range x.Reads() {
				used[r.Module] = true
			}
		}
		n := len(b.p.Modules)
		b.p.Modules = slices.DeleteFunc(b.p.Modules, func(x pipelines.Module) bool { return !used[x.Name] })
		b.served = slices.DeleteFunc(b.served, func(s Served) bool { return !used[s.Module] })
		if len(b.p.Modules) == n {
			return
		}
		b.diags = append(b.diags, files.Warning(different, fmt.Sprintf("%s: steps whose outputs nothing uses are not computed.", m.name), m.at(stepPath)))
	}
}
