package hcl

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// envPrefix marks environment variables that set variables of a declaration.
const envPrefix = "HARPAGON_VAR_"

var variableSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "type"}, {Name: "default"}, {Name: "description"}},
	Blocks:     []hcl.BlockHeaderSchema{{Type: "validation"}},
}

var validationSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "condition", Required: true}, {Name: "error_message", Required: true}}}

// rule is what the value of a variable must keep to.
type rule struct {
	variable           string
	condition, message hcl.Expression
	place              hcl.Range // of the value
}

// functions that expressions may use: those that depend on nothing outside.
func functions(m *meter) map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "concat": stdlib.ConcatFunc, "floor": stdlib.FloorFunc,
		"format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "length": stdlib.LengthFunc, "lower": stdlib.LowerFunc,
		"max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "range": stdlib.RangeFunc,
		"replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc, "upper": stdlib.UpperFunc,
		"coalesce": stdlib.CoalesceFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc,
		"flatten": stdlib.FlattenFunc, "jsondecode": stdlib.JSONDecodeFunc, "keys": stdlib.KeysFunc, "lookup": stdlib.LookupFunc,
		"reverse": stdlib.ReverseListFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
		"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber": stdlib.MakeToFunc(cty.Number), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	}
	for name, f := range all {
		all[name] = m.limited(name, f)
	}
	return all
}

// Variables names the variables that the files declare, sorted.
func (c *Config) Variables() []string {
	var names []string
	for path := range c.ranges {
		name, ours := strings.CutPrefix(path, "variable.")
		if ours && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// given is a value for a variable and where it came from.
type given struct {
	text   string    // from the environment or the command line
	value  cty.Value // from a file; NilVal when text counts
	source string
	place  *hcl.Range
}

// scope evaluates variables and locals.
func (d *decoder) scope(variables, locals hcl.Blocks, opts LoadOptions) *hcl.EvalContext {
	ctx := &hcl.EvalContext{Functions: functions(&d.config.meter), Variables: map[string]cty.Value{}}
	ctx.Variables["path"] = cty.ObjectVal(map[string]cty.Value{"module": here, "root": here})
	ctx.Variables["var"] = d.variables(variables, d.given(variables, opts))
	for _, r := range d.rules {
		d.keeps(r, ctx)
	}
	d.locals(ctx, locals)
	return ctx
}

// here is the folder of a file for the paths in it, which are relative to it.
var here = cty.StringVal(".")

// keeps reports a variable whose value its validation block does not allow.
func (d *decoder) keeps(r rule, ctx *hcl.EvalContext) {
	holds, diags := r.condition.Value(ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || !holds.IsWhollyKnown() || holds.IsNull() {
		return
	}
	if holds, err := convert.Convert(holds, cty.Bool); err != nil {
		d.report(files.Problem("Wrong kind of value", "The condition of a validation is true or false.", ptr(r.condition.Range())))
	} else if holds.False() {
		message, diags := r.message.Value(ctx)
		if d.diags = append(d.diags, diags...); !diags.HasErrors() {
			d.report(files.Problem("Variable out of bounds", fmt.Sprintf("The value of %q is not allowed (%s): %s", r.variable, r.condition.Range(), nameOf(message)), &r.place))
		}
	}
}

// given collects values in rising order of precedence and reports those that
// belong to no variable.
func (d *decoder) given(variables hcl.Blocks, opts LoadOptions) map[string]given {
	all := map[string]given{}
	for _, entry := range opts.Env {
		name, text, _ := strings.Cut(entry, "=")
		if name, ours := strings.CutPrefix(name, envPrefix); ours && declares(variables, name) {
			all[name] = given{text: text, source: "the environment variable " + envPrefix + name}
		}
	}
	for _, file := range opts.VarFiles {
		maps.Copy(all, d.varFile(file))
	}
	for name, text := range opts.Vars {
		all[name] = given{text: text, source: "--var " + name}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !declares(variables, name) {
			var known []string
			for _, b := range variables {
				known = append(known, b.Labels[0])
			}
			d.report(files.Problem("Undeclared variable", fmt.Sprintf("%s sets the variable %q, which no variable block declares.%s", all[name].source, name, pipelines.Suggest(name, known)), all[name].place))
			delete(all, name)
		}
	}
	return all
}

func declares(variables hcl.Blocks, name string) bool {
	return slices.ContainsFunc(variables, func(b *hcl.Block) bool { return b.Labels[0] == name })
}

// varFile reads name = value lines.
func (d *decoder) varFile(name string) map[string]given {
	src, err := osutil.ReadGivenFile(name, maxSource)
	if err != nil {
		d.report(files.Problem("Cannot read the variables", err.Error(), nil))
		return nil
	}
	var file *hcl.File
	var diags hcl.Diagnostics
	if isJSON(name) {
		file, diags = parseJSON(src, name)
	} else {
		file, diags = hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	}
	d.diags = append(d.diags, diags...)
	if file == nil {
		return nil
	}
	d.config.Files[name] = file
	attrs, diags := file.Body.JustAttributes()
	d.diags = append(d.diags, diags...)
	all := map[string]given{}
	for _, a := range attrs {
		v, diags := a.Expr.Value(nil)
		d.diags = append(d.diags, diags...)
		if !diags.HasErrors() {
			all[a.Name] = given{value: v, source: name, place: ptr(a.Range)}
		}
	}
	return all
}

func (d *decoder) variables(blocks hcl.Blocks, given map[string]given) cty.Value {
	values := map[string]cty.Value{}
	for _, b := range blocks {
		name := b.Labels[0]
		if d.fresh("variable."+name, "variable", name, b) {
			values[name] = d.variable(b, given)
		}
	}
	return cty.ObjectVal(values)
}

func (d *decoder) variable(b *hcl.Block, all map[string]given) cty.Value {
	name := b.Labels[0]
	content := d.content(b.Body, variableSchema)
	attrs := content.Attributes
	place := b.DefRange
	if g, ok := all[name]; ok && g.place != nil {
		place = *g.place
	}
	for _, v := range content.Blocks {
		if of := d.content(v.Body, validationSchema).Attributes; len(of) == len(validationSchema.Attributes) {
			d.rules = append(d.rules, rule{name, d.native(of["condition"]).Expr, d.native(of["error_message"]).Expr, place})
		}
	}
	want := cty.DynamicPseudoType
	if a := attrs["type"]; a != nil {
		t, diags := typeexpr.TypeConstraint(a.Expr)
		d.diags = append(d.diags, diags...)
		want = t
	}
	if g, ok := all[name]; ok {
		return d.givenValue(name, g, want, b)
	}
	a := attrs["default"]
	if a == nil {
		d.report(files.Problem("Variable without a value", fmt.Sprintf("Set it with --var %s=VALUE, in a file NAME.auto.hclvars of this folder or a --var-file, or with %s%s; or give it a default.%s", name, envPrefix, name, terraformVars(b.DefRange.Filename)), &b.DefRange))
		return cty.DynamicVal
	}
	v, diags := a.Expr.Value(nil)
	d.diags = append(d.diags, diags...)
	return d.fit(v, want, fmt.Sprintf("The default of %q", name), ptr(a.Expr.Range()))
}

// terraformVars names the way for files that Terraform reads by themselves.
func terraformVars(declaredIn string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(declaredIn), "*.tfvars"))
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf(" %s is not read by itself: give it with --var-file, or call it NAME.auto.hclvars.", filepath.Base(found[0]))
}

// givenValue reads text by the variable's type: as it stands for a string, and
// as an expression for everything else.
func (d *decoder) givenValue(name string, g given, want cty.Type, b *hcl.Block) cty.Value {
	v := g.value
	if v == cty.NilVal {
		v = cty.StringVal(g.text)
		if want != cty.String && checkNesting([]byte(g.text), g.source) == nil {
			expr, diags := hclsyntax.ParseExpression([]byte(g.text), g.source, hcl.InitialPos)
			if parsed, more := expr.Value(nil); !diags.HasErrors() && !more.HasErrors() {
				v = parsed
			}
		}
	}
	place := g.place
	if place == nil {
		place = &b.DefRange
	}
	return d.fit(v, want, fmt.Sprintf("The value that %s gives to %q", g.source, name), place)
}

func (d *decoder) fit(v cty.Value, want cty.Type, what string, place *hcl.Range) cty.Value {
	fitted, err := convert.Convert(v, want)
	if err != nil {
		d.report(files.Problem("Wrong kind of value", fmt.Sprintf("%s must be of type %s.", what, typeexpr.TypeString(want)), place))
		return cty.DynamicVal
	}
	return fitted
}

// locals evaluates each local once all that it refers to have values.
func (d *decoder) locals(ctx *hcl.EvalContext, blocks hcl.Blocks) {
	pending := map[string]*hcl.Attribute{}
	for _, b := range blocks {
		attrs, diags := b.Body.JustAttributes()
		d.diags = append(d.diags, diags...)
		for name, a := range attrs {
			a = d.native(a)
			if earlier, taken := pending[name]; taken {
				d.report(files.Problem("Declared twice", fmt.Sprintf("The local %q is declared already at %s.", name, earlier.Range), &a.Range))
				continue
			}
			pending[name] = a
		}
	}
	values := map[string]cty.Value{}
	order := d.localOrder(pending)
	for _, name := range order {
		ctx.Variables["local"] = referred(pending[name].Expr, values)
		v, diags := pending[name].Expr.Value(ctx)
		d.diags = append(d.diags, diags...)
		if err := d.config.meter.spend(v); err != nil && !diags.HasErrors() {
			d.report(files.Problem(tooComplex, fmt.Sprintf("The local %q is not read: %v.", name, err), ptr(pending[name].Range)))
			v = cty.DynamicVal
		}
		values[name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		if _, read := values[name]; !read {
			d.report(files.Problem("Locals form a cycle", fmt.Sprintf("The local %q needs its own value.", name), ptr(pending[name].Range)))
			values[name] = cty.DynamicVal
		}
	}
	ctx.Variables["local"] = cty.ObjectVal(values)
}

// localOrder sorts locals so that each stands after those that it refers to.
// Those that form a cycle, or wait for one, are left out.
func (d *decoder) localOrder(pending map[string]*hcl.Attribute) []string {
	waits := make(map[string]int, len(pending))
	below := map[string][]string{}
	var order []string
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		above, _ := localsOf(pending[name].Expr)
		for _, other := range above {
			if pending[other] != nil {
				waits[name]++
				below[other] = append(below[other], name)
			}
		}
		if waits[name] == 0 {
			order = append(order, name)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, name := range below[order[i]] {
			if waits[name]--; waits[name] == 0 {
				order = append(order, name)
			}
		}
	}
	return order
}

// localsOf names the locals that an expression refers to; whole says that it
// refers to all of them together, too.
func localsOf(e hcl.Expression) (names []string, whole bool) {
	for _, t := range e.Variables() {
		if t.RootName() != "local" {
			continue
		}
		if len(t) == 1 {
			whole = true
		} else if step, ok := t[1].(hcl.TraverseAttr); ok {
			names = append(names, step.Name)
		} else {
			whole = true
		}
	}
	return names, whole
}

// referred is the object of the locals that an expression needs.
func referred(e hcl.Expression, values map[string]cty.Value) cty.Value {
	names, whole := localsOf(e)
	if whole {
		return cty.ObjectVal(values)
	}
	some := make(map[string]cty.Value, len(names))
	for _, name := range names {
		if v, ok := values[name]; ok {
			some[name] = v
		}
	}
	return cty.ObjectVal(some)
}
