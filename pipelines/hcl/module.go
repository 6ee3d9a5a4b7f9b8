package hcl

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// network is what a module, a variant of one and a pool say of what computes answers.
type network struct {
	model, engine  *string
	command, files *[]string
}

func networkOf(m *pipelines.Module) network {
	return network{&m.Model, &m.Engine, &m.Command, &m.Files}
}

func networkRows[T any](of func(*T) network) []attribute[T] {
	return []attribute[T]{
		attr("model", model, func(t *T) *string { return of(t).model },
			`ONNX file of a network, or the address of a model on a server: '"grpc://HOST:PORT/MODEL"', see [engines](../reference/engines.md); or the address of a file, '"https://HOST/PATH.onnx#sha256:..."', see [models](../how-to/models.md#models-at-an-address)`),
		attr("engine", text, func(t *T) *string { return of(t).engine },
			firstIsDefault(engines())+`; see [engines](../reference/engines.md). A model that asks for onnxruntime is served by gorgonia where the library is missing, if gorgonia knows its operators; a line reports it`),
		attr("command", command, func(t *T) *[]string { return of(t).command },
			`list of a program and its arguments that serves the model on a Unix socket, such as '["python3", "./serve.py"]'; see [engines](../reference/engines.md). Arguments that begin with './' or '../' are paths from this folder`),
		attr("files", paths, func(t *T) *[]string { return of(t).files },
			`list of further files and folders that the command needs; they go to workers with its arguments, in the same folders`),
	}
}

// engines are the names that an attribute may give; steps have one of their own.
func engines() []string {
	names := []string{pipelines.EngineAuto}
	for _, e := range pipelines.Engines() {
		if e.Takes != pipelines.SourceFunction {
			names = append(names, e.Name)
		}
	}
	return names
}

// together documents rows with one text.
func together[T any](doc string, rows ...attribute[T]) []attribute[T] {
	for i := range rows {
		rows[i].doc = ""
	}
	rows[0].doc = doc
	return rows
}

var moduleBlock = block[pipelines.Module]{
	kind: "module",
	attributes: slices.Concat(
		[]attribute[pipelines.Module]{
			forEach[pipelines.Module](),
			attr("function", text, func(m *pipelines.Module) *string { return &m.Function },
				`a processing step instead of a network: a [built-in one](../reference/steps.md), or one that a Go program registered`),
		},
		networkRows(networkOf),
		[]attribute[pipelines.Module]{
			attr("profile", file, func(m *pipelines.Module) *string { return &m.ProfileFile },
				`CSV file of durations of batches: [profiles](../reference/profiles.md)`),
			attr("accuracy", accuracy, func(m *pipelines.Module) *float64 { return &m.Accuracy },
				`share of the network's answers that are right, above 0 and at most 1; required where the module has variants`),
			attr("inputs", bindings, func(m *pipelines.Module) *[]pipelines.Binding { return &m.Inputs },
				`an object: for each input of the model its source, by name: a reference, a list of two branches of which one runs ('[module.read.text, module.describe.text]'), or a [constant](../reference/modules.md#constants-and-the-batch-dimension)`).required(),
			condition("when", false, `a tensor, such as 'module.gate.found': runs only in items in which some element of it is not zero: [conditions](../reference/fanout.md#conditions)`),
			condition("else", true, `a tensor: runs only in items in which all of its elements are zero`),
			{
				name: "fanout", read: (*decoder).fanout, print: fanoutTokens,
				when: func(m *pipelines.Module) bool { return m.Scatter && !(m.IsConditional() && m.Fanout == 1) },
				doc:  `splits inputs into requests of their own: '16' for always that many per upstream request, '1.8' for so many on average, '{ mean = 1.8, max = 8 }' where there are never more than max: [fan-out](../reference/fanout.md). Beside 'when' or 'else', the share of items in which the condition holds; 1 without it`,
			},
			attr("gather", gather, func(m *pipelines.Module) *string { return &m.Gather },
				`'module.NAME', one of those above: runs once for each item that it gets, with all items that came of it, in order; 'true': once for all items of the fan-out around its inputs. Without it, inputs of different scopes are gathered in the deepest that they share`),
			attr("rate", number, func(m *pipelines.Module) *float64 { return &m.Rate },
				`requests per second, instead of what follows from the pipeline`),
			attr("hardware", texts, func(m *pipelines.Module) *[]string { return &m.Hardware },
				`list of the kinds that may run it; all declared kinds without it`),
			attr("batches", batches, func(m *pipelines.Module) *[]int { return &m.Batches },
				`list of the batch sizes to measure; without it 1, 2, 4, 8, 16, 32, as far as the model takes them`),
			attr("batching", unless, func(m *pipelines.Module) *bool { return &m.Unbatched },
				`'false' for a network that takes one request at a time: its tensors go through as they are, without a batch dimension`),
			{
				name: "state", read: (*decoder).state, print: stateTokens, when: func(m *pipelines.Module) bool { return m.State },
				doc: `'true' for a module that keeps state between the frames of a stream, such as a tracker or a recurrent network: it gets the frames of each stream one at a time and in order, with the state that the one before left. '{ INPUT = "OUTPUT" }' pairs what goes back where neither names nor the program do. See [streams](../explanation/streams.md#state)`,
			},
			attr("batch_axis", batchAxis, func(m *pipelines.Module) *map[string]int { return &m.BatchAxis },
				`an object: for inputs and outputs whose batch is not the first dimension, which it is: [batches](../reference/modules.md#constants-and-the-batch-dimension)`),
			attr("libraries", paths, func(m *pipelines.Module) *[]string { return &m.Libraries },
				`list of shared libraries with operators that the network uses beside ONNX's own (each exports 'RegisterCustomOps'), for the onnxruntime engines. They are code: each is at this path of every machine that runs the module, in a folder of '--allow-folder' where its worker has that`),
			attr("parameters", parameters, func(m *pipelines.Module) *map[string]any { return &m.Parameters },
				`of the function: an object of numbers, strings, booleans, and lists and objects of these`),
			attr("typical", typicals, func(m *pipelines.Module) *map[string][]int64 { return &m.Typical },
				`an object: shapes of typical requests by input, where what feeds them varies, such as '{ image = [3, 640, 640] }'. It overrides the typical shape of the pipeline's input. Without either, the first dimension counts as 4, or the fan-out, and any other as 32; what is gathered has as many rows as its fan-outs make`),
		},
	),
	parts: []part[pipelines.Module]{
		many(&variantBlock, func(m *pipelines.Module) *[]pipelines.Variant { return &m.Variants },
			func(d *decoder, attrs hcl.Attributes, m *pipelines.Module, v *pipelines.Variant) {
				d.single(m, attrs["profile"], &v.Profile)
			}),
	},
	name:  func(m *pipelines.Module) *string { return &m.Name },
	start: func(m *pipelines.Module) { m.Fanout = 1 },
	finish: func(d *decoder, _ *hcl.Block, attrs hcl.Attributes, m *pipelines.Module) {
		if m.Scatter = attrs["fanout"] != nil || m.IsConditional(); m.IsConditional() && m.Most == 0 {
			m.Most = 1
		}
		d.profile(attrs["profile"], m.ProfileFile, &m.Profile)
		d.single(m, attrs["profile"], &m.Profile)
	},
}

var variantBlock = block[pipelines.Variant]{
	kind: "variant",
	attributes: slices.Concat(
		together("as in a module", networkRows(func(v *pipelines.Variant) network {
			return network{&v.Model, &v.Engine, &v.Command, &v.Files}
		})...),
		[]attribute[pipelines.Variant]{
			attr("profile", file, func(v *pipelines.Variant) *string { return &v.ProfileFile }, ""),
			attr("accuracy", accuracy, func(v *pipelines.Variant) *float64 { return &v.Accuracy },
				`share of this network's answers that are right, above 0 and at most 1`).required(),
		},
	),
	name: func(v *pipelines.Variant) *string { return &v.Name },
	finish: func(d *decoder, _ *hcl.Block, attrs hcl.Attributes, v *pipelines.Variant) {
		d.profile(attrs["profile"], v.ProfileFile, &v.Profile)
	},
}

// profile reads the profile of a module or variant, where it names one.
func (d *decoder) profile(a *hcl.Attribute, file string, to *pipelines.Profile) {
	if file == "" {
		return
	}
	src, ok := d.read(file, a, "profile", "Measure the module with harpagon profile, or take the attribute out to have it measured when it is applied.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(file, src)
	d.diags = append(d.diags, diags...)
	to.Points = points
}

// single drops what a profile says of larger batches than an unbatched module takes.
func (d *decoder) single(m *pipelines.Module, a *hcl.Attribute, p *pipelines.Profile) {
	if !m.Unbatched {
		return
	}
	var kept []pipelines.Point
	for _, at := range p.Points {
		if at.Batch <= 1 {
			kept = append(kept, at)
		}
	}
	if len(kept) < len(p.Points) {
		d.report(files.Warning("Batches that are not made", fmt.Sprintf("%q takes one request at a time (batching = false); larger batches of its profile are not used.", m.Name), ptr(a.Expr.Range())))
	}
	p.Points = kept
}

// fanout reads a number, or { mean = 1.8, max = 8 }.
func (d *decoder) fanout(a *hcl.Attribute, m *pipelines.Module) {
	v, ok := d.value(a, cty.DynamicPseudoType, "a number or an object")
	if !ok {
		return
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		d.number(a, &m.Fanout)
		return
	}
	wrong := fmt.Sprintf("Write how many requests there are per upstream request on average, and at most: fanout = { mean = 1.8, max = 8 }. Max is a whole number from 1 to %d; where there is none, write the mean alone: fanout = 1.8.", pipelines.MaxItems)
	all := d.object(a, wrong)
	if all == nil {
		return
	}
	mean, known := all["mean"].(float64)
	most, bounded := all["max"].(float64)
	if !known || !bounded || len(all) > 2 || most < 1 || most > pipelines.MaxItems || most != math.Trunc(most) {
		d.wrong(a, wrong)
		return
	}
	m.Fanout, m.Most = mean, int(most)
}

func fanoutTokens(m *pipelines.Module, _ bool) hclwrite.Tokens {
	if m.Most == 0 || m.IsConditional() {
		return number.print(m.Fanout)
	}
	return object([]hclwrite.ObjectAttrTokens{
		{Name: keyTokens("mean"), Value: number.print(m.Fanout)}, {Name: keyTokens("max"), Value: integer.print(m.Most)},
	})
}

// state reads true, or { INPUT = "OUTPUT" }.
func (d *decoder) state(a *hcl.Attribute, m *pipelines.Module) {
	v, ok := d.value(a, cty.DynamicPseudoType, "true or an object")
	if !ok {
		return
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		d.boolean(a, &m.State)
		return
	}
	const wrong = "Write state = true, or, by input of the network, which of its outputs goes back to it: state = { state = \"state_next\" }."
	loops := map[string]string{}
	for input, output := range d.object(a, wrong) {
		name, ok := output.(string)
		if !ok || name == "" {
			d.wrong(a, wrong)
			return
		}
		loops[input] = name
	}
	if len(loops) == 0 {
		d.wrong(a, wrong)
		return
	}
	m.State, m.Loops = true, loops
}

func stateTokens(m *pipelines.Module, _ bool) hclwrite.Tokens {
	if len(m.Loops) == 0 {
		return boolean.print(true)
	}
	return sorted(m.Loops, cty.StringVal)
}

// condition is under which a module runs.
func condition(name string, otherwise bool, doc string) attribute[pipelines.Module] {
	return attribute[pipelines.Module]{
		name: name, doc: doc,
		read: func(d *decoder, a *hcl.Attribute, m *pipelines.Module) {
			if m.IsConditional() {
				d.report(files.Problem("Two conditions", "A module has one condition: when or else.", ptr(a.Expr.Range())))
				return
			}
			ref.read(d, a, &m.When)
			m.Else = otherwise && m.IsConditional()
		},
		print: func(m *pipelines.Module, _ bool) hclwrite.Tokens { return refTokens(m.When) },
		when:  func(m *pipelines.Module) bool { return m.IsConditional() && m.Else == otherwise },
	}
}

// gather is a module, or true for the scope around.
var gather = codec[string]{
	func(d *decoder, a *hcl.Attribute, to *string) {
		names, around := d.namesOf(a.Expr), false
		switch {
		case len(names) == 2 && names[0] == "module":
			*to = names[1]
		case len(names) > 0 && names[0] == "module":
			d.wrong(a, "Gather names a module, as in gather = module.detect, and none of its outputs.")
		default:
			if d.boolean(a, &around); around {
				*to = pipelines.GatherAround
			}
		}
	},
	func(name string) hclwrite.Tokens {
		if name == pipelines.GatherAround {
			return boolean.print(true)
		}
		return reference("module", name)
	},
}

// accuracy is the share of answers that are right.
var accuracy = codec[float64]{
	func(d *decoder, a *hcl.Attribute, to *float64) {
		share := math.NaN()
		switch d.number(a, &share); {
		case math.IsNaN(share): // reported
		case share <= 0 || share > 1:
			d.report(files.Problem("Invalid accuracy", "Accuracy is the share of answers that are right, above 0 and at most 1, such as 0.76.", ptr(a.Expr.Range())))
		default:
			*to = share
		}
	},
	func(x float64) hclwrite.Tokens {
		if x == 0 {
			return nil
		}
		return number.print(x)
	},
}

var batches = codec[[]int]{
	func(d *decoder, a *hcl.Attribute, to *[]int) {
		var sizes []int64
		d.integers(a, &sizes)
		for _, s := range sizes {
			if s < 1 || s > pipelines.MaxBatch {
				d.report(files.Problem("Invalid batch size", fmt.Sprintf("A batch has between 1 and %d requests, not %d.", pipelines.MaxBatch, s), ptr(a.Expr.Range())))
				return
			}
			*to = append(*to, int(s))
		}
		slices.Sort(*to)
		*to = slices.Compact(*to)
	},
	func(all []int) hclwrite.Tokens {
		sizes := make([]int64, len(all))
		for i, n := range all {
			sizes[i] = int64(n)
		}
		return integers.print(sizes)
	},
}

// bindings are { name = reference or constant, ... } in the order written.
var bindings = codec[[]pipelines.Binding]{
	func(d *decoder, a *hcl.Attribute, to *[]pipelines.Binding) {
		pairs, diags := hcl.ExprMap(a.Expr)
		if diags.HasErrors() {
			d.report(files.Problem("Inputs are not an object", "Write inputs as { name = module.NAME.OUTPUT }, { name = input.NAME } or { name = 16000 }: one entry for each input of the model.", ptr(a.Expr.Range())))
			return
		}
		seen := map[string]bool{}
		for _, pair := range pairs {
			name := d.key(pair.Key)
			switch {
			case name == "":
				d.report(files.Problem("Invalid input name", "The name of an input is a plain word.", ptr(pair.Key.Range())))
				continue
			case seen[name]:
				d.report(files.Problem("Declared twice", fmt.Sprintf("The input %q is fed twice.", name), ptr(pair.Key.Range())))
				continue
			}
			seen[name] = true
			b, ok := d.binding(pair.Value)
			if !ok {
				continue
			}
			b.Name = name
			d.place(d.path+"."+name, pair.Value.Range())
			*to = append(*to, b)
		}
	},
	func(all []pipelines.Binding) hclwrite.Tokens {
		var pairs []hclwrite.ObjectAttrTokens
		for _, b := range all {
			value := refTokens(b.From)
			switch {
			case b.IsConstant():
				value = literal(ctyValue(b.Value))
			case b.IsMerge():
				value = hclwrite.TokensForTuple([]hclwrite.Tokens{value, refTokens(b.Or)})
			}
			pairs = append(pairs, hclwrite.ObjectAttrTokens{Name: keyTokens(b.Name), Value: value})
		}
		return object(pairs)
	},
}

// key is the name in a pair of an object: a word, or a string that is computed.
func (d *decoder) key(e hcl.Expression) string {
	if name := hcl.ExprAsKeyword(e); name != "" {
		return name
	}
	v, diags := e.Value(d.ctx)
	if diags.HasErrors() {
		return ""
	}
	return nameOf(v)
}

// nameOf is a value as a name: a text, or a whole number, as exporters name what they make.
func nameOf(v cty.Value) string {
	if !v.IsWhollyKnown() || v.IsNull() || v.Type() != cty.String && v.Type() != cty.Number {
		return ""
	}
	if v.Type() == cty.Number && !v.AsBigFloat().IsInt() {
		return ""
	}
	text, err := convert.Convert(v, cty.String)
	if err != nil {
		return ""
	}
	return text.AsString()
}

// merge reads [module.A.OUTPUT, module.B.OUTPUT]: of two branches that which ran.
func (d *decoder) merge(e hcl.Expression, of []hcl.Expression) (b pipelines.Binding, ok bool) {
	if len(of) != 2 {
		d.report(files.Problem("Not two branches", "An input takes one of two branches, as in [module.read.text, module.describe.text]: one runs by when and the other by else of the same tensor. Where there are more, let a module take two of them first.", ptr(e.Range())))
		return b, false
	}
	from, one := d.reference(of[0])
	or, other := d.reference(of[1])
	return pipelines.Binding{From: from, Or: or}, one && other
}

// isReference reports whether an expression begins as a reference to a tensor does.
func (d *decoder) isReference(e hcl.Expression) bool {
	names := d.namesOf(e)
	return len(names) > 0 && (names[0] == "input" || names[0] == "module")
}

// binding reads what feeds an input: a reference, or anything else that has a
// value: a constant, which may be made of variables and locals.
func (d *decoder) binding(e hcl.Expression) (pipelines.Binding, bool) {
	if of, diags := hcl.ExprList(e); !diags.HasErrors() && slices.ContainsFunc(of, d.isReference) {
		return d.merge(e, of)
	}
	values := []string{"var", "local", "each", "path", "true", "false", "null"} // what else looks like a reference
	if names := d.namesOf(e); len(names) > 0 && !slices.Contains(values, names[0]) {
		from, ok := d.reference(e)
		return pipelines.Binding{From: from}, ok
	}
	v, diags := e.Value(d.ctx)
	if diags.HasErrors() {
		d.diags = append(d.diags, diags...)
		return pipelines.Binding{}, false
	}
	if !v.IsWhollyKnown() {
		d.config.unknown[e.Range()] = true // what it is made of was reported
		return pipelines.Binding{}, false
	}
	value, ok := plainValue(v)
	if !ok || !pipelines.IsPlainTensor(value) {
		d.report(files.Problem("Not an input", "An input is fed by a reference (input.NAME or module.NAME.OUTPUT), or by a constant: a number, string or boolean, or a list of these.", ptr(e.Range())))
		return pipelines.Binding{}, false
	}
	if text, ok := value.(string); ok && (strings.HasPrefix(text, "input.") || strings.HasPrefix(text, "module.")) {
		d.report(files.Problem("A reference in quotes", fmt.Sprintf("%q in quotes is a text. Take the quotes off to refer to the tensor.", text), ptr(e.Range())))
		return pipelines.Binding{}, false
	}
	return pipelines.Binding{Value: value}, true
}

// noAxis is how a declaration writes NoBatchAxis.
const noAxis = "none"

// batchAxis is { name = axis, ... }.
var batchAxis = codec[map[string]int]{
	func(d *decoder, a *hcl.Attribute, to *map[string]int) {
		const wrong = "batch_axis is an object of inputs and outputs, with the dimension of each that is the batch, counted from 0, such as { state = 1 }, or \"none\" where it has none."
		axes := map[string]int{}
		for name, value := range d.object(a, wrong) {
			x, ok := value.(float64)
			switch {
			case value == noAxis:
				x = pipelines.NoBatchAxis
			case !ok || x != math.Trunc(x) || x < 0 || x >= pipelines.MaxRank:
				d.wrong(a, wrong)
				return
			}
			axes[name] = int(x)
		}
		if len(axes) > 0 {
			*to = axes
		}
	},
	func(all map[string]int) hclwrite.Tokens {
		plain := make(map[string]any, len(all))
		for name, axis := range all {
			if plain[name] = float64(axis); axis == pipelines.NoBatchAxis {
				plain[name] = noAxis
			}
		}
		return parameters.print(plain)
	},
}

// typicals are { name = [3, 640, 480], ... }.
var typicals = codec[map[string][]int64]{
	func(d *decoder, a *hcl.Attribute, to *map[string][]int64) {
		v, ok := d.value(a, cty.Map(cty.List(cty.Number)), "an object with a shape for each input, such as { image = [3, 640, 480] }")
		if !ok {
			return
		}
		all := map[string][]int64{}
		for name, list := range v.AsValueMap() {
			all[name] = []int64{}
			for _, n := range list.AsValueSlice() {
				x, accuracy := n.AsBigFloat().Int64()
				if accuracy != 0 {
					d.report(files.Problem("Not a whole number", "The dimensions of a shape are whole numbers.", ptr(a.Expr.Range())))
					return
				}
				all[name] = append(all[name], x)
			}
		}
		*to = all
	},
	func(all map[string][]int64) hclwrite.Tokens { return sorted(all, intTuple) },
}

// ref is input.NAME or module.NAME.OUTPUT.
var ref = codec[pipelines.Ref]{
	func(d *decoder, a *hcl.Attribute, to *pipelines.Ref) { *to, _ = d.reference(a.Expr) },
	refTokens,
}

func (d *decoder) reference(e hcl.Expression) (pipelines.Ref, bool) {
	switch names := d.namesOf(e); {
	case len(names) == 2 && names[0] == "input":
		return pipelines.Ref{Port: names[1]}, true
	case len(names) == 3 && names[0] == "input":
		return pipelines.Ref{Port: oneOf(names[1], names[2])}, true
	case len(names) == 3 && names[0] == "module":
		return pipelines.Ref{Module: names[1], Port: names[2]}, true
	case len(names) == 4 && names[0] == "module":
		return pipelines.Ref{Module: oneOf(names[1], names[2]), Port: names[3]}, true
	}
	d.report(files.Problem("Not a reference", "Refer to an input of the pipeline as input.NAME, or to the output of a module as module.NAME.OUTPUT.", ptr(e.Range())))
	return pipelines.Ref{}, false
}

// namesOf are the names in a reference; none where it is something else. Names that are
// no words are reached as in module["a.b"].out, and computed ones as in module[each.key].out.
func (d *decoder) namesOf(e hcl.Expression) []string {
	switch x := e.(type) {
	case *hclsyntax.ParenthesesExpr:
		return d.namesOf(x.Expression)
	case *hclsyntax.ConditionalExpr: // whose condition does not hang on tensors
		holds, diags := x.Condition.Value(d.ctx)
		switch {
		case diags.HasErrors() || !holds.IsWhollyKnown() || holds.IsNull() || holds.Type() != cty.Bool:
			return nil
		case holds.True():
			return d.namesOf(x.TrueResult)
		}
		return d.namesOf(x.FalseResult)
	case *hclsyntax.RelativeTraversalExpr:
		names, steps := d.namesOf(x.Source), stepsOf(x.Traversal)
		if names == nil || steps == nil {
			return nil
		}
		return append(names, steps...)
	case *hclsyntax.IndexExpr:
		names := d.namesOf(x.Collection)
		key, diags := x.Key.Value(d.ctx)
		if name := nameOf(key); names != nil && !diags.HasErrors() && name != "" {
			return append(names, name)
		}
		return nil
	}
	traversal, diags := hcl.AbsTraversalForExpr(e)
	if diags.HasErrors() {
		return nil
	}
	return stepsOf(traversal)
}

// stepsOf are the names in a traversal; none where there are others than names in it.
func stepsOf(traversal hcl.Traversal) (names []string) {
	for _, step := range traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		case hcl.TraverseIndex:
			name := nameOf(s.Key)
			if name == "" {
				return nil
			}
			names = append(names, name)
		default:
			return nil
		}
	}
	return names
}

func refTokens(r pipelines.Ref) hclwrite.Tokens {
	if r.Module == "" {
		return reference("input", r.Port)
	}
	return reference("module", r.Module, r.Port)
}
