package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// A recording whose memory is bounded begins in the middle of a policy's life. To decide it
// again, what the policy remembered at that instant must be known. Policies are plain values:
// structs, slices and numbers, and no pointers to anything outside. So one walk over their fields
// writes all of them, and another reads them back into a policy made from the same Spec. What
// is only scratch memory between two steps is tagged `record:"-"` in the policy and left out.
//
// The bytes mean something only to a policy with the same fields: layout is a checksum of them.

// appendState writes what the policy remembers. The error says that it is not a plain value.
func appendState(b []byte, p dispatch.Policy) (state []byte, layout uint64, err error) {
	v := reflect.ValueOf(p)
	if layout, err = layoutOf(v.Type()); err != nil {
		return nil, 0, err
	}
	return appendValue(b, v.Elem()), layout, nil
}

// restoreState reads it back into a policy that was made from the same Spec.
func restoreState(state []byte, layout uint64, p dispatch.Policy) error {
	v := reflect.ValueOf(p)
	switch now, err := layoutOf(v.Type()); {
	case err != nil:
		return err
	case now != layout:
		return fmt.Errorf("it begins in the middle, and what policy %s remembers is not the same in this version of harpagon; replay it with the version that recorded it, or record from the start", p.Name())
	}
	r := reader{b: state}
	readValue(&r, v.Elem())
	if r.err == nil && len(r.b) > 0 {
		r.err = errMalformed
	}
	return r.err
}

func layoutOf(t reflect.Type) (uint64, error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return 0, fmt.Errorf("a policy of type %v cannot be recorded", t)
	}
	h := fnv.New64a()
	err := describeType(h.Write, t.Elem())
	return h.Sum64(), err
}

func describeType(write func([]byte) (int, error), t reflect.Type) error {
	_, _ = fmt.Fprint(writer(write), t.Kind(), " ")
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("record") != "-" {
				_, _ = fmt.Fprint(writer(write), f.Name, " ")
				if err := describeType(write, f.Type); err != nil {
					return fmt.Errorf("%s.%w", f.Name, err)
				}
			}
		}
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return describeType(write, t.Elem())
	case reflect.Map:
		if k := t.Key().Kind(); k < reflect.Int || k > reflect.Int64 {
			return fmt.Errorf("%v has keys that are no whole numbers", t)
		}
		if err := describeType(write, t.Key()); err != nil {
			return err
		}
		return describeType(write, t.Elem())
	case reflect.Func, reflect.Interface, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%v is no plain value", t)
	}
	return nil
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		return append(b, byte(bit(v.Bool(), 1)))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float32, reflect.Float64:
		return binary.AppendUvarint(b, math.Float64bits(v.Float()))
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendValue(append(b, 1), v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return append(b, 0)
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return cmp.Compare(x.Int(), y.Int()) })
		b = binary.AppendUvarint(b, uint64(len(keys))+1)
		for _, k := range keys {
			b = appendValue(appendInt(b, k.Int()), v.MapIndex(k))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("record") != "-" {
				b = appendValue(b, v.Field(i))
			}
		}
	}
	return b
}

// readValue sets v, whose fields may be unexported, hence the pointer to where it lies.
func readValue(r *reader, v reflect.Value) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.byte() != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.uint())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(math.Float64frombits(r.uint()))
	case reflect.String:
		n := r.count()
		v.SetString(string(r.b[:n]))
		r.b = r.b[n:]
	case reflect.Pointer:
		if r.byte() == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		readValue(r, v.Elem())
	case reflect.Slice:
		n := r.uint()
		if n == 0 || n-1 > uint64(len(r.b)) {
			if v.SetZero(); n > 0 {
				r.err = errMalformed
			}
			return
		}
		room := max(int(n-1), min(v.Cap(), 1<<16)) // policies make room beforehand, so as not to allocate in steps
		v.Set(reflect.MakeSlice(v.Type(), int(n-1), room))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			if readValue(r, v.Index(i)); r.err != nil {
				return
			}
		}
	case reflect.Map:
		n := r.uint()
		if n == 0 || n-1 > uint64(len(r.b)) {
			if v.SetZero(); n > 0 {
				r.err = errMalformed
			}
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), int(n-1)))
		for range n - 1 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetInt(r.int())
			if readValue(r, elem); r.err != nil {
				return
			}
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("record") != "-" {
				readValue(r, v.Field(i))
			}
		}
	}
}
