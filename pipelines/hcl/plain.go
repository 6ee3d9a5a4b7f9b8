package hcl

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

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
