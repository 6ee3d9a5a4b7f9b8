package pipelines

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// IsFileParameter says whether a parameter of that name is the path of a file.
func IsFileParameter(name string) bool { return strings.HasSuffix(name, "_file") }

// ParameterFiles are the files that the parameters of a module's function name.
func (m *Module) ParameterFiles() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		if path, ok := m.Parameters[name].(string); ok && path != "" && IsFileParameter(name) {
			all = append(all, path)
		}
	}
	return all
}

// plainGo turns a Go value into what a declaration holds: a float64, string,
// bool, []any or map[string]any of these. It takes numbers, strings and booleans
// of any kind, slices and arrays, maps with strings as keys, and pointers to
// these.
func Plain(value any) (any, error) {
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
		if !IsFinite(v.Float()) {
			return nil, fmt.Errorf("%v is no number that a declaration can hold", value)
		}
		return v.Float(), nil
	case reflect.Slice, reflect.Array:
		return plainList(v)
	case reflect.Map:
		return plainMap(v)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return Plain(v.Elem().Interface())
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
		if list[i], err = Plain(v.Index(i).Interface()); err != nil {
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
		e, err := Plain(v.MapIndex(key).Interface())
		if err != nil {
			return nil, err
		}
		all[key.String()] = e
	}
	return all, nil
}

// finite reports NaN and infinities, which arithmetic in HCL can produce.
func IsFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
