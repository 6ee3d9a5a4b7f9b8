package pipelines

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Constant is the tensor that a declaration binds to an input: its shape, and its
// elements in row-major order, each a float64, string or bool.
type Constant struct {
	Datatype string
	Shape    []int64
	Elements []any
}

// ConstantAt is the tensor that a value, as Binding holds it, is at a port. A
// value that is no list is a scalar; a list has one dimension more than what is
// in it. One element also fills a port all of whose dimensions are 1 or open.
// Where the port has no datatype, numbers are FP32, and it takes any shape. The
// error reports what does not fit.
func ConstantAt(value any, p Port) (Constant, error) {
	var c Constant
	shape, err := c.take(value)
	if err != nil {
		return c, err
	}
	c.Shape, c.Datatype = shape, p.Datatype
	if p.Datatype == "" {
		c.Datatype = datatypeOf(c.Elements)
	} else if !SameShape(shape, p.Shape) {
		one := func(d int64) bool { return d == 1 || d == -1 }
		if len(c.Elements) != 1 || slices.ContainsFunc(p.Shape, func(d int64) bool { return !one(d) }) {
			return c, fmt.Errorf("the constant has shape %v where %v is taken", shape, p.Shape)
		}
		c.Shape = slices.Repeat([]int64{1}, len(p.Shape))
	}
	for _, e := range c.Elements {
		if err := elementFits(e, c.Datatype); err != nil {
			return c, err
		}
	}
	return c, nil
}

// take adds the elements of the value and returns its shape.
func (c *Constant) take(value any) ([]int64, error) {
	list, ok := value.([]any)
	if !ok {
		c.Elements = append(c.Elements, value)
		return []int64{}, nil
	}
	var within []int64
	for i, e := range list {
		shape, err := c.take(e)
		if err != nil {
			return nil, err
		}
		if i > 0 && !slices.Equal(shape, within) {
			return nil, errors.New("the lists of the constant differ in length")
		}
		within = shape
	}
	return append([]int64{int64(len(list))}, within...), nil
}

func datatypeOf(elements []any) string {
	for _, e := range elements {
		switch e.(type) {
		case string:
			return "BYTES"
		case bool:
			return "BOOL"
		}
	}
	return "FP32"
}

// elementFits reports whether the datatype holds the element.
func elementFits(e any, datatype string) error {
	fits := false
	switch e := e.(type) {
	case string:
		fits = datatype == "BYTES"
	case bool:
		fits = datatype == "BOOL"
	case float64:
		low, high, whole := wholeRange(datatype)
		switch {
		case whole && (e != math.Trunc(e) || e < low || e > high):
			return fmt.Errorf("the constant holds %v, which is no %s", e, datatype)
		case whole || slices.Contains([]string{"FP16", "BF16", "FP32", "FP64"}, datatype):
			fits = true
		}
	}
	if !fits {
		return fmt.Errorf("the constant holds %v where %s is taken", e, datatype)
	}
	return nil
}

// wholeRange is what a datatype of whole numbers holds, as far as a float64 is
// exact.
func wholeRange(datatype string) (low, high float64, whole bool) {
	bits := map[string]int{"8": 8, "16": 16, "32": 32, "64": 53}
	if n, ok := strings.CutPrefix(datatype, "UINT"); ok {
		return 0, math.Ldexp(1, bits[n]) - 1, bits[n] > 0
	}
	if n, ok := strings.CutPrefix(datatype, "INT"); ok && bits[n] > 0 {
		if bits[n] == 53 {
			return -1 << 53, 1 << 53, true
		}
		return -math.Ldexp(1, bits[n]-1), math.Ldexp(1, bits[n]-1) - 1, true
	}
	return 0, 0, false
}

// SameShape lets -1 stand for any extent.
func SameShape(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && a[i] != -1 && b[i] != -1 {
			return false
		}
	}
	return true
}

// IsPlainTensor reports whether a plain value is made of numbers, strings, booleans
// and lists only.
func IsPlainTensor(value any) bool {
	switch value := value.(type) {
	case float64, string, bool:
		return true
	case []any:
		for _, e := range value {
			if !IsPlainTensor(e) {
				return false
			}
		}
		return true
	}
	return false
}

// Misfit reports why a shape is no instance of another, whose -1 may be anything;
// empty where it is one.
func Misfit(shape, typical []int64) string {
	if len(typical) != len(shape) {
		return fmt.Sprintf("the rank is %d, not %d", len(typical), len(shape))
	}
	n := int64(1)
	for i, d := range typical {
		switch {
		case d < 1:
			return "every dimension is a positive number"
		case shape[i] > 0 && shape[i] != d:
			return fmt.Sprintf("dimension %d is %d, not %d", i+1, shape[i], d)
		case d > maxTypical/n:
			return fmt.Sprintf("it has more than %d elements", maxTypical)
		}
		n *= d
	}
	return ""
}

// maxTypical bounds the elements of a typical input.
const maxTypical = 1 << 28
