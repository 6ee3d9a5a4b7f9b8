package quantity

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Derived is a value in JSON that a struct does not hold but computes.
type Derived struct {
	After string // name in JSON of the field behind which it stands
	Tag   string // as of a field: `gap,omitempty`
	Value any
}

// Marshal writes a struct by the json tags of its fields, as json.Marshal does, but
// durations, and those in maps, as numbers of milliseconds, and lists and maps that are
// nil as empty ones, unless they are left out. It is for types whose MarshalJSON is this.
//
//	type Plan struct {
//		SLO     time.Duration `json:"slo_ms"`
//		Modules []Module      `json:"modules"`
//	}
//
//	func (p Plan) MarshalJSON() ([]byte, error) { return quantity.Marshal(p) }
func Marshal(of any, derived ...Derived) ([]byte, error) {
	from := reflect.ValueOf(of)
	to := reflect.New(written(from.Type(), derived)).Elem()
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if at := slices.IndexFunc(derived, func(d Derived) bool { return derivedName(d) == name }); at >= 0 {
			to.Field(i).Set(reflect.ValueOf(derived[at].Value))
			continue
		}
		set(to.Field(i), from.FieldByName(name))
		if field := to.Field(i); (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.IsNil() {
			field.Set(empty(field.Type()))
		}
	}
	return json.Marshal(to.Interface())
}

// Unmarshal reads what Marshal wrote; fields that it does not know are ignored, and empty
// lists and maps become nil.
func Unmarshal(text []byte, into any) error {
	to := reflect.ValueOf(into).Elem()
	from := reflect.New(written(to.Type(), nil))
	if err := json.Unmarshal(text, from.Interface()); err != nil {
		return err
	}
	to.SetZero()
	for i := range from.Elem().NumField() {
		field := from.Elem().Field(i)
		if (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.Len() == 0 {
			continue
		}
		set(to.FieldByName(from.Elem().Type().Field(i).Name), field)
	}
	return nil
}

// written is the struct in whose place another is written: without its methods, with
// other types of durations and with what is derived.
func written(t reflect.Type, derived []Derived) reflect.Type {
	var fields []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("json")
		if !f.IsExported() || name == "-" {
			continue
		}
		fields = append(fields, reflect.StructField{Name: f.Name, Type: inMS(f.Type), Tag: f.Tag, Anonymous: f.Anonymous})
		for _, d := range derived {
			if short, _, _ := strings.Cut(name, ","); short == d.After {
				fields = append(fields, reflect.StructField{Name: derivedName(d), Type: reflect.TypeOf(d.Value), Tag: reflect.StructTag(`json:"` + d.Tag + `"`)})
			}
		}
	}
	return reflect.StructOf(fields)
}

// derivedName is the name of the field that is written for it, which no field has.
func derivedName(d Derived) string {
	name, _, _ := strings.Cut(d.Tag, ",")
	return "Derived_" + name
}

var duration, milliseconds = reflect.TypeFor[time.Duration](), reflect.TypeFor[MS]()

func inMS(t reflect.Type) reflect.Type {
	switch {
	case t == duration:
		return milliseconds
	case t.Kind() == reflect.Map && t.Elem() == duration:
		return reflect.MapOf(t.Key(), milliseconds)
	}
	return t
}

// set copies a value to one of the same type but for durations.
func set(to, from reflect.Value) {
	switch {
	case from.CanConvert(to.Type()):
		to.Set(from.Convert(to.Type()))
	case !from.IsNil():
		to.Set(reflect.MakeMap(to.Type()))
		for key, value := range from.Seq2() {
			to.SetMapIndex(key, value.Convert(to.Type().Elem()))
		}
	}
}

// empty is a list or map without anything in it.
func empty(t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Map {
		return reflect.MakeMap(t)
	}
	return reflect.MakeSlice(t, 0, 0)
}
