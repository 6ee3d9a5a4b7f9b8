package hcl

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// bindings reads { name = reference or constant, ... } in the order written.
func (d *decoder) bindings(a *hcl.Attribute, path string) []pipelines.Binding {
	if a == nil {
		return nil
	}
	pairs, diags := hcl.ExprMap(a.Expr)
	if diags.HasErrors() {
		d.report(files.Problem("Inputs are not an object", "Write inputs as { name = module.NAME.OUTPUT }, { name = input.NAME } or { name = 16000 }: one entry for each input of the model.", ptr(a.Expr.Range())))
		return nil
	}
	var all []pipelines.Binding
	seen := map[string]bool{}
	for _, pair := range pairs {
		name := hcl.ExprAsKeyword(pair.Key)
		if name == "" {
			if v, diags := pair.Key.Value(d.ctx); !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.Type().FriendlyName() == "string" {
				name = v.AsString()
			}
		}
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
		d.place(path+".inputs."+name, pair.Value.Range())
		all = append(all, b)
	}
	return all
}

// binding reads what feeds an input: a reference, or anything else that has a
// value: a constant, which may be made of variables and locals.
func (d *decoder) binding(e hcl.Expression) (pipelines.Binding, bool) {
	traversal, diags := hcl.AbsTraversalForExpr(e)
	values := []string{"var", "local", "true", "false", "null"} // what else looks like a reference
	if !diags.HasErrors() && !slices.Contains(values, traversal.RootName()) {
		from, ok := d.reference(e)
		return pipelines.Binding{From: from}, ok
	}
	v, diags := e.Value(d.ctx)
	if diags.HasErrors() {
		d.diags = append(d.diags, diags...)
		return pipelines.Binding{}, false
	}
	value, ok := constantValue(v)
	if !ok {
		d.report(files.Problem("Not an input", "An input is fed by a reference (input.NAME or module.NAME.OUTPUT), or by a constant: a number, string or boolean, or a list of these.", ptr(e.Range())))
		return pipelines.Binding{}, false
	}
	if text, ok := value.(string); ok && (strings.HasPrefix(text, "input.") || strings.HasPrefix(text, "module.")) {
		d.report(files.Problem("A reference in quotes", fmt.Sprintf("%q in quotes is a text. Take the quotes off to refer to the tensor.", text), ptr(e.Range())))
		return pipelines.Binding{}, false
	}
	return pipelines.Binding{Value: value}, true
}

// constantValue is a plain value without objects.
func constantValue(v cty.Value) (any, bool) {
	value, ok := plainValue(v)
	return value, ok && pipelines.IsPlainTensor(value)
}

// batching reads the opposite of Module.Unbatched.
func (d *decoder) batching(a *hcl.Attribute, unbatched *bool) {
	if v, ok := d.value(a, cty.Bool, "true or false"); ok {
		*unbatched = v.False()
	}
}

// batchAxis reads { name = axis, ... }.
func (d *decoder) batchAxis(a *hcl.Attribute, to *map[string]int) {
	v, ok := d.value(a, cty.DynamicPseudoType, "an object")
	if !ok {
		return
	}
	wrong := func() {
		d.report(files.Problem("Wrong kind of value", "batch_axis is an object that says of inputs and outputs which dimension is the batch, counted from 0, such as { state = 1 }, or \"none\" where it has none.", ptr(a.Expr.Range())))
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		wrong()
		return
	}
	all := map[string]int{}
	for name, e := range v.AsValueMap() {
		axis, ok := axisOf(e)
		if !ok {
			wrong()
			return
		}
		all[name] = axis
	}
	if len(all) > 0 {
		*to = all
	}
}

func axisOf(v cty.Value) (int, bool) {
	value, ok := plainValue(v)
	if !ok {
		return 0, false
	}
	if value == noAxis {
		return pipelines.NoBatchAxis, true
	}
	x, ok := value.(float64)
	return int(x), ok && x == math.Trunc(x) && x >= 0 && x < pipelines.MaxRank
}

// single drops what a profile says of larger batches than an unbatched module
// takes.
func (d *decoder) single(m *pipelines.Module, a *hcl.Attribute) {
	var kept []pipelines.Point
	for _, at := range m.Profile.Points {
		if at.Batch <= 1 {
			kept = append(kept, at)
		}
	}
	if len(kept) < len(m.Profile.Points) {
		d.report(files.Warning("Batches that are not made", fmt.Sprintf("%q takes one request at a time (batching = false); what its profile says of larger batches is not used.", m.Name), ptr(a.Expr.Range())))
	}
	m.Profile.Points = kept
}

var variantBlock = hcl.BlockHeaderSchema{Type: "variant", LabelNames: []string{"name"}}

var variantSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "model"}, {Name: "engine"}, {Name: "command"}, {Name: "files"}, {Name: "accuracy", Required: true}, {Name: "profile"},
}}

// variant reads a variant block of a module.
func (d *decoder) variant(b *hcl.Block, path string, of *pipelines.Module) {
	path += ".variant." + b.Labels[0]
	if !d.fresh(path, b.Type, b) {
		return
	}
	attrs := d.attributes(path, d.content(b.Body, variantSchema))
	m := pipelines.Module{Name: of.Name, Unbatched: of.Unbatched}
	d.text(attrs["engine"], &m.Engine)
	d.runs(&m, attrs, b.DefRange.Filename)
	if m.ProfileFile != "" {
		d.profile(&m, attrs["profile"])
		if m.Unbatched {
			d.single(&m, attrs["profile"])
		}
	}
	of.Variants = append(of.Variants, pipelines.Variant{
		Name: b.Labels[0], Model: m.Model, Engine: m.Engine, Command: m.Command, Files: m.Files, Accuracy: m.Accuracy,
		ProfileFile: m.ProfileFile, Profile: m.Profile,
	})
}

// accuracy reads the share of answers that are right.
func (d *decoder) accuracy(a *hcl.Attribute, to *float64) {
	if a == nil {
		return
	}
	share := math.NaN()
	switch d.number(a, &share); {
	case math.IsNaN(share): // reported
	case share <= 0 || share > 1:
		d.report(files.Problem("Invalid accuracy", "Accuracy is the share of answers that are right, above 0 and at most 1, such as 0.76.", ptr(a.Expr.Range())))
	default:
		*to = share
	}
}

// read is the content of a file that an attribute names, kept for the snippets of
// diagnostics. Where it cannot be read, hint says what such a file is.
func (d *decoder) read(path string, a *hcl.Attribute, what, hint string) ([]byte, bool) {
	src, err := osutil.ReadFile(path, osutil.MaxText)
	if err != nil {
		d.report(files.Problem("Missing "+what, fmt.Sprintf("%v. %s", err, hint), ptr(a.Expr.Range())))
		return nil, false
	}
	if d.config.meter.files += len(src); d.config.meter.files > maxFiles {
		d.report(files.Problem(tooComplex, fmt.Sprintf("The files that a declaration names have %d bytes together at most, each as often as it is named.", maxFiles), ptr(a.Expr.Range())))
		return nil, false
	}
	d.config.Files[path] = &hcl.File{Bytes: src}
	return src, true
}

// arrivals reads the attribute, and the trace that it names.
func (d *decoder) arrivals(a *hcl.Attribute, declaredIn string, p *pipelines.Pipeline) {
	d.text(a, &p.Arrivals)
	kind, _, file, err := pipelines.SplitArrivals(p.Arrivals)
	if err != nil || kind != pipelines.ArrivalsTrace {
		return // what is wrong is for validate to say
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(declaredIn), path)
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	p.Arrivals = pipelines.ArrivalsTrace + ":" + path
	src, ok := d.read(path, a, "trace", "A trace holds the number of requests in each second, one a line.")
	if !ok {
		return
	}
	trace, diags := files.ReadTrace(path, src)
	d.diags = append(d.diags, diags...)
	if len(trace.Seconds) > pipelines.MaxDeclaredTrace {
		d.report(files.Problem("Trace too long", fmt.Sprintf("The trace has %d lines; a declaration travels with its trace and takes %d. Keep the busiest hours of it.", len(trace.Seconds), pipelines.MaxDeclaredTrace), ptr(a.Expr.Range())))
		return
	}
	p.Trace = &trace
}

// attainment reads a share of requests; 0 asks for none.
func (d *decoder) attainment(a *hcl.Attribute, to *float64) {
	if a == nil {
		return
	}
	share := math.NaN()
	if d.number(a, &share); math.IsNaN(share) {
		return // reported
	}
	switch {
	case share < 0:
		d.report(files.Problem("Invalid attainment", "Attainment is a share between 0 and 1, such as 0.99; 0 asks for none.", ptr(a.Expr.Range())))
	case share == 0:
		*to = pipelines.NoAttainment
	default:
		*to = share
	}
}

// headroom reads a share of the objective: "10%", or 0.1.
func (d *decoder) headroom(a *hcl.Attribute, to **float64) {
	if a == nil {
		return
	}
	v, ok := d.value(a, cty.DynamicPseudoType, pipelines.HeadroomHint)
	if !ok {
		return
	}
	share := math.NaN()
	switch v.Type() {
	case cty.Number:
		share, _ = v.AsBigFloat().Float64()
	case cty.String:
		text, percent := strings.CutSuffix(strings.TrimSpace(v.AsString()), "%")
		if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && percent {
			share = x / 100
		}
	}
	if problemOf := pipelines.CheckHeadroom(share); problemOf != "" {
		d.report(files.Problem("Invalid headroom", problemOf, ptr(a.Expr.Range())))
		return
	}
	*to = &share
}

// profile reads the module's profile file.
func (d *decoder) profile(m *pipelines.Module, a *hcl.Attribute) {
	src, ok := d.read(m.ProfileFile, a, "profile", "Measure the module with harpagon profile, or take the attribute out to have it measured when it is applied.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(m.ProfileFile, src)
	d.diags = append(d.diags, diags...)
	m.Profile.Points = points
}

// sample reads the shape of the file that stands for a typical request.
func (d *decoder) sample(in *pipelines.Port, a *hcl.Attribute, folder string) {
	if d.file(a, folder, &in.Sample); in.Sample == "" {
		return
	}
	shape, err := files.SampleShape(*in, in.Sample)
	if err != nil {
		d.report(files.Problem("Unusable sample", err.Error()+".", ptr(a.Expr.Range())))
		return
	}
	in.Typical = shape
}

// typicals reads { name = [3, 640, 480], ... }.
func (d *decoder) typicals(a *hcl.Attribute, to *map[string][]int64) {
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
}
