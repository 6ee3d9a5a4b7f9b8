package pipelines

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// plainGo turns a Go value into what a declaration holds: a float64, string,
// bool, []any or map[string]any of these. It takes numbers, strings and booleans
// of any kind, slices and arrays, maps with strings as keys, and pointers to
// these.
func plainGo(value any) (any, error) {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return wholeNumber(float64(v.Int()), v.Int() == int64(float64(v.Int())), value)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return wholeNumber(float64(v.Uint()), v.Uint() == uint64(float64(v.Uint())), value)
	case reflect.Float32, reflect.Float64:
		if !finite(v.Float()) {
			return nil, fmt.Errorf("%v is no number that a declaration can hold", value)
		}
		return v.Float(), nil
	case reflect.Slice, reflect.Array:
		return plainList(v)
	case reflect.Map:
		return plainMap(v)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return plainGo(v.Elem().Interface())
		}
	}
	return nil, fmt.Errorf("a declaration cannot hold a %T; use numbers, strings, booleans, and slices and maps of these", value)
}

// wholeNumber keeps only those that a float64 holds exactly.
func wholeNumber(x float64, same bool, value any) (any, error) {
	if !same || math.Abs(x) > 1<<53 {
		return nil, fmt.Errorf("%v is too large a number for a declaration", value)
	}
	return x, nil
}

func plainList(v reflect.Value) (any, error) {
	list := make([]any, v.Len())
	for i := range list {
		var err error
		if list[i], err = plainGo(v.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func plainMap(v reflect.Value) (any, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("the keys of a map are strings, not %s", v.Type().Key())
	}
	all := make(map[string]any, v.Len())
	for _, key := range v.MapKeys() {
		e, err := plainGo(v.MapIndex(key).Interface())
		if err != nil {
			return nil, err
		}
		all[key.String()] = e
	}
	return all, nil
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
		return x, finite(x)
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

// ctyValue is a plain value as HCL prints it.
func ctyValue(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case float64:
		return decimal(v)
	case []any:
		list := make([]cty.Value, 0, len(v))
		for _, e := range v {
			list = append(list, ctyValue(e))
		}
		return cty.TupleVal(list)
	case map[string]any:
		all := make(map[string]cty.Value, len(v))
		for name, e := range v {
			all[name] = ctyValue(e)
		}
		return cty.ObjectVal(all)
	}
	if plain, err := plainGo(v); err == nil {
		return ctyValue(plain)
	}
	return cty.StringVal(strings.TrimSpace(fmt.Sprint(v))) // Builder.Build refuses it
}
