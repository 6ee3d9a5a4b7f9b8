package steps

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Parameters reads the parameters of a module. Every method takes the name and
// what holds when the parameter is not given; what is wrong is collected and
// found in Err, so that a Prepare reads straight on.
type Parameters struct {
	given  map[string]any
	known  []string
	errors []error
}

// NewParameters reads from a module's parameters: float64, string, bool, or
// []any of these.
func NewParameters(given map[string]any) *Parameters {
	return &Parameters{given: given}
}

// Err is everything that was wrong: parameters of the wrong type or out of
// range, missing ones, and unknown ones.
func (p *Parameters) Err() error {
	all := slices.Clone(p.errors)
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(p.known, name) {
			all = append(all, fmt.Errorf("there is no parameter %q%s", name, hint(name, p.known)))
		}
	}
	return errors.Join(all...)
}

// Failf records a finding about the parameter.
func (p *Parameters) Failf(name, format string, args ...any) {
	p.errors = append(p.errors, fmt.Errorf("parameter %q %s", name, fmt.Sprintf(format, args...)))
}

// Number reads a number between low and high.
func (p *Parameters) Number(name string, otherwise, low, high float64) float64 {
	value, given := p.read(name)
	if !given {
		return otherwise
	}
	x, ok := number(value)
	switch {
	case !ok:
		p.Failf(name, "must be a number, not %s", describe(value))
	case math.IsNaN(x) || x < low || x > high:
		p.Failf(name, "must be between %v and %v, not %v", low, high, x)
	default:
		return x
	}
	return otherwise
}

// Whole reads a whole number between low and high.
func (p *Parameters) Whole(name string, otherwise, low, high int) int {
	x := p.Number(name, float64(otherwise), float64(low), float64(high))
	if x != math.Trunc(x) {
		p.Failf(name, "must be a whole number, not %v", x)
		return otherwise
	}
	return int(x)
}

// Choice reads one of the options; the first holds when nothing is given.
func (p *Parameters) Choice(name string, options ...string) string {
	value, given := p.read(name)
	if !given {
		return options[0]
	}
	s, ok := value.(string)
	if !ok || !slices.Contains(options, s) {
		p.Failf(name, "must be one of %s, not %s", strings.Join(options, ", "), describe(value))
		return options[0]
	}
	return s
}

// Bool reads true or false.
func (p *Parameters) Bool(name string, otherwise bool) bool {
	value, given := p.read(name)
	if !given {
		return otherwise
	}
	b, ok := value.(bool)
	if !ok {
		p.Failf(name, "must be true or false, not %s", describe(value))
		return otherwise
	}
	return b
}

// Text reads a string.
func (p *Parameters) Text(name, otherwise string) string {
	value, given := p.read(name)
	if !given {
		return otherwise
	}
	s, ok := value.(string)
	if !ok {
		p.Failf(name, "must be a string, not %s", describe(value))
		return otherwise
	}
	return s
}

// Texts reads a list of strings; nil when it is not given.
func (p *Parameters) Texts(name string) []string {
	value, given := p.read(name)
	if !given {
		return nil
	}
	if list, ok := value.([]string); ok {
		return list
	}
	list, ok := value.([]any)
	if !ok {
		p.Failf(name, "must be a list of strings, not %s", describe(value))
		return nil
	}
	texts := make([]string, len(list))
	for i, v := range list {
		if texts[i], ok = v.(string); !ok {
			p.Failf(name, "must be a list of strings, but element %d is %s", i+1, describe(v))
			return nil
		}
	}
	return texts
}

// Need records an error when the parameter is not given.
func (p *Parameters) Need(names ...string) {
	for _, name := range names {
		if _, given := p.read(name); !given {
			p.Failf(name, "is missing")
		}
	}
}

func (p *Parameters) read(name string) (any, bool) {
	if !slices.Contains(p.known, name) {
		p.known = append(p.known, name)
	}
	value, given := p.given[name]
	return value, given
}

// number also takes the integers that a Go program may have put there.
func number(value any) (float64, bool) {
	switch x := value.(type) {
	case float64:
		return x, true
	case float32:
		return float64(x), true
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	}
	return 0, false
}

func describe(value any) string {
	switch x := value.(type) {
	case string:
		return fmt.Sprintf("%q", x)
	case []any, []string:
		return "a list"
	}
	return fmt.Sprint(value)
}

// hint suggests the closest of the names, or lists them when none is close.
func hint(name string, names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	best, distance := "", len(name)/2+1
	for _, n := range names {
		if d := levenshtein.Distance(name, n, nil); d < distance {
			best, distance = n, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; there are: " + strings.Join(names, ", ")
}
