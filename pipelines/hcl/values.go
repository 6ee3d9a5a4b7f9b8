package hcl

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// value evaluates an attribute to the wanted type and reports what is wrong; it
// returns false for one that is null, too.
func (d *decoder) value(a *hcl.Attribute, want cty.Type, hint string) (cty.Value, bool) {
	v, diags := a.Expr.Value(d.ctx)
	if diags.HasErrors() {
		d.diags = append(d.diags, diags...)
		return cty.NilVal, false
	}
	if v.IsNull() {
		return cty.NilVal, false
	}
	if err := d.config.meter.spend(v); err != nil {
		d.report(files.Problem(tooComplex, fmt.Sprintf("The value of %s is not read: %v.", a.Name, err), ptr(a.Expr.Range())))
		return cty.NilVal, false
	}
	if !v.IsWhollyKnown() {
		d.config.unknown[a.Expr.Range()] = true // what it is made of was reported
		return cty.NilVal, false
	}
	wrong := false
	if want == cty.Number && v.Type() == cty.String {
		wrong = true // "100" would pass for 100 and hide a wrong unit
	}
	if !wrong {
		converted, err := convert.Convert(v, want)
		wrong = err != nil
		v = converted
	}
	if wrong {
		d.wrong(a, fmt.Sprintf("The value of %s must be %s.", a.Name, hint))
		return cty.NilVal, false
	}
	return v, true
}

// What most attributes are. A row names one of these, or one that stands beside its block.
var (
	text     = codec[string]{(*decoder).text, func(s string) hclwrite.Tokens { return literal(cty.StringVal(s)) }}
	number   = codec[float64]{(*decoder).number, func(x float64) hclwrite.Tokens { return literal(decimal(x)) }}
	integer  = codec[int]{(*decoder).integer, func(n int) hclwrite.Tokens { return literal(cty.NumberIntVal(int64(n))) }}
	boolean  = codec[bool]{(*decoder).boolean, func(on bool) hclwrite.Tokens { return literal(cty.BoolVal(on)) }}
	unless   = codec[bool]{(*decoder).unless, func(off bool) hclwrite.Tokens { return literal(cty.BoolVal(!off)) }}
	duration = codec[time.Duration]{(*decoder).duration, func(x time.Duration) hclwrite.Tokens { return text.print(durationText(x)) }}
	size     = codec[int64]{(*decoder).size, func(n int64) hclwrite.Tokens { return text.print(memoryText(n)) }}
	texts    = codec[[]string]{(*decoder).texts, func(all []string) hclwrite.Tokens { return literal(textTuple(all)) }}
	integers = codec[[]int64]{(*decoder).integers, func(all []int64) hclwrite.Tokens { return literal(intTuple(all)) }}
	file     = codec[string]{(*decoder).file, fileTokens}
	model    = codec[string]{(*decoder).model, text.print}
	command  = codec[[]string]{(*decoder).command, texts.print}
	paths    = codec[[]string]{(*decoder).paths, texts.print}
)

func (d *decoder) text(a *hcl.Attribute, to *string) {
	if v, ok := d.value(a, cty.String, "a string"); ok {
		*to = v.AsString()
	}
}

func (d *decoder) number(a *hcl.Attribute, to *float64) {
	v, ok := d.value(a, cty.Number, "a number, without unit or quotes")
	if !ok {
		return
	}
	x, _ := v.AsBigFloat().Float64()
	if !pipelines.IsFinite(x) {
		d.report(files.Problem("Number out of range", fmt.Sprintf("The value of %s is too large.", a.Name), ptr(a.Expr.Range())))
		return
	}
	*to = x
}

func (d *decoder) integer(a *hcl.Attribute, to *int) {
	var x float64
	d.number(a, &x)
	if x != math.Trunc(x) || math.Abs(x) > 1e9 {
		d.report(files.Problem("Not a whole number", fmt.Sprintf("The value of %s must be a whole number.", a.Name), ptr(a.Expr.Range())))
		return
	}
	*to = int(x)
}

func (d *decoder) duration(a *hcl.Attribute, to *time.Duration) {
	v, ok := d.value(a, cty.String, `a duration in quotes, such as "400ms"`)
	if !ok {
		return
	}
	x, err := time.ParseDuration(v.AsString())
	if err != nil {
		d.report(files.Problem("Wrong unit", fmt.Sprintf(`%q is not a duration: write a number with its unit, such as "400ms" or "1.5s".`, v.AsString()), ptr(a.Expr.Range())))
		return
	}
	*to = x
}

// size reads "16GiB" and the like to bytes.
func (d *decoder) size(a *hcl.Attribute, to *int64) {
	v, ok := d.value(a, cty.String, `a size in quotes, such as "16GiB"`)
	if !ok {
		return
	}
	n, err := quantity.ParseBytes(v.AsString())
	if err != nil {
		d.report(files.Problem("Wrong unit", err.Error()+".", ptr(a.Expr.Range())))
		return
	}
	*to = n
}

func (d *decoder) boolean(a *hcl.Attribute, to *bool) {
	if v, ok := d.value(a, cty.Bool, "true or false"); ok {
		*to = v.True()
	}
}

// unless reads the opposite of what the attribute says.
func (d *decoder) unless(a *hcl.Attribute, to *bool) {
	if v, ok := d.value(a, cty.Bool, "true or false"); ok {
		*to = v.False()
	}
}

// file reads a path and makes it absolute from the folder of the declaration.
func (d *decoder) file(a *hcl.Attribute, to *string) {
	d.text(a, to)
	*to = absolute(*to, a.Range.Filename)
}

// fileTokens leave a file that is not there out, required or not.
func fileTokens(path string) hclwrite.Tokens {
	if path == "" {
		return nil
	}
	return text.print(path)
}

// model reads the path of a model, or its address.
func (d *decoder) model(a *hcl.Attribute, to *string) {
	if d.text(a, to); !strings.Contains(*to, "://") {
		*to = absolute(*to, a.Range.Filename)
	}
}

func (d *decoder) paths(a *hcl.Attribute, to *[]string) {
	d.texts(a, to)
	for i := range *to {
		(*to)[i] = absolute((*to)[i], a.Range.Filename)
	}
}

func absolute(path, declaredIn string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	path = filepath.Join(filepath.Dir(declaredIn), path)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// command reads a program with its arguments. Those that begin with ./ or ../
// are paths, made absolute from the folder of the declaration.
func (d *decoder) command(a *hcl.Attribute, to *[]string) {
	d.texts(a, to)
	for i, s := range *to {
		if strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") {
			(*to)[i] = absolute(s, a.Range.Filename)
		}
	}
}

func (d *decoder) texts(a *hcl.Attribute, to *[]string) {
	if v, ok := d.value(a, cty.List(cty.String), "a list of strings"); ok {
		for _, s := range v.AsValueSlice() {
			if !s.IsNull() {
				*to = append(*to, s.AsString())
			}
		}
	}
}

func (d *decoder) integers(a *hcl.Attribute, to *[]int64) {
	v, ok := d.value(a, cty.List(cty.Number), "a list of whole numbers")
	if !ok {
		return
	}
	*to = []int64{}
	for _, n := range v.AsValueSlice() {
		if n.IsNull() {
			continue
		}
		x, accuracy := n.AsBigFloat().Int64()
		if accuracy != 0 {
			d.report(files.Problem("Not a whole number", fmt.Sprintf("The values of %s must be whole numbers.", a.Name), ptr(a.Expr.Range())))
			return
		}
		*to = append(*to, x)
	}
}

// parameters are an object of plain values. A string whose name ends in _file is a path,
// as a model's is.
var parameters = codec[map[string]any]{
	func(d *decoder, a *hcl.Attribute, to *map[string]any) {
		all := d.object(a, "Parameters are an object of numbers, strings, booleans, and lists and objects of these.")
		for name, value := range all {
			if path, ok := value.(string); ok && pipelines.IsFileParameter(name) {
				all[name] = absolute(path, a.Range.Filename)
			}
		}
		if len(all) > 0 {
			*to = all
		}
	},
	func(all map[string]any) hclwrite.Tokens { return sorted(all, ctyValue) },
}

// object reads an object of numbers, strings, booleans, and lists and objects of them.
func (d *decoder) object(a *hcl.Attribute, wrong string) map[string]any {
	v, ok := d.value(a, cty.DynamicPseudoType, "an object")
	if !ok {
		return nil
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		d.wrong(a, wrong)
		return nil
	}
	all := map[string]any{}
	for name, p := range v.AsValueMap() {
		if all[name], ok = plainValue(p); !ok {
			d.wrong(a, wrong)
			return nil
		}
	}
	return all
}

// wrong reports a value that is not what the attribute takes.
func (d *decoder) wrong(a *hcl.Attribute, detail string) {
	d.report(files.Problem("Wrong kind of value", detail, ptr(a.Expr.Range())))
}

// plainValue is a number, string or boolean, or a list or object of these, as Go has it.
func plainValue(v cty.Value) (any, bool) {
	if v.IsNull() || !v.IsWhollyKnown() {
		return nil, false
	}
	switch t := v.Type(); {
	case t == cty.String:
		return v.AsString(), true
	case t == cty.Bool:
		return v.True(), true
	case t == cty.Number:
		x, _ := v.AsBigFloat().Float64()
		return x, pipelines.IsFinite(x)
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		list := []any{}
		for _, e := range v.AsValueSlice() {
			p, ok := plainValue(e)
			if !ok {
				return nil, false
			}
			list = append(list, p)
		}
		return list, true
	case t.IsObjectType() || t.IsMapType():
		all := map[string]any{}
		for name, e := range v.AsValueMap() {
			p, ok := plainValue(e)
			if !ok {
				return nil, false
			}
			all[name] = p
		}
		return all, true
	}
	return nil, false
}
