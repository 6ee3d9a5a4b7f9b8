package hcl

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// value evaluates an attribute to the wanted type and reports what is wrong;
// it returns false for an attribute that is not there.
func (d *decoder) value(a *hcl.Attribute, want cty.Type, hint string) (cty.Value, bool) {
	if a == nil {
		return cty.NilVal, false
	}
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
	wrong := !v.IsWhollyKnown()
	if !wrong && want == cty.Number && v.Type() == cty.String {
		wrong = true // "100" would pass for 100 and hide a wrong unit
	}
	if !wrong {
		converted, err := convert.Convert(v, want)
		wrong = err != nil
		v = converted
	}
	if wrong {
		d.report(files.Problem("Wrong kind of value", fmt.Sprintf("The value of %s must be %s.", a.Name, hint), ptr(a.Expr.Range())))
		return cty.NilVal, false
	}
	return v, true
}

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

// file reads a path and makes it absolute from the folder of the declaration.
func (d *decoder) file(a *hcl.Attribute, declaredIn string, to *string) {
	d.text(a, to)
	*to = absolute(*to, declaredIn)
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
func (d *decoder) command(a *hcl.Attribute, declaredIn string, to *[]string) {
	d.texts(a, to)
	for i, s := range *to {
		if strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") {
			(*to)[i] = absolute(s, declaredIn)
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

func (d *decoder) batches(a *hcl.Attribute, to *[]int) {
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
}

// parameters reads an object of numbers, strings, booleans, and lists and objects
// of them. A string whose name ends in _file is a path, as a model's is.
func (d *decoder) parameters(a *hcl.Attribute, to *map[string]any) {
	v, ok := d.value(a, cty.DynamicPseudoType, "an object")
	if !ok {
		return
	}
	bad := func() {
		d.report(files.Problem("Wrong kind of value", "Parameters are an object of numbers, strings, booleans, and lists and objects of these.", ptr(a.Expr.Range())))
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		bad()
		return
	}
	all := map[string]any{}
	for name, p := range v.AsValueMap() {
		plain, ok := plainValue(p)
		if !ok {
			bad()
			return
		}
		if path, ok := plain.(string); ok && pipelines.IsFileParameter(name) {
			plain = absolute(path, a.Range.Filename)
		}
		all[name] = plain
	}
	if len(all) > 0 {
		*to = all
	}
}

// plainValue is the same for a value of HCL.
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
