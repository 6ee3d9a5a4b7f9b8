package pipelines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Fault is what is wrong with one attribute of a plan block, or the flag of its
// name.
type Fault struct {
	Attribute string
	Summary   string
	Detail    string // a sentence that says what to write instead
}

// sentence begins with a capital letter, as findings do.
func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// suggestAll is suggest for names that are few enough to list all of them.
func suggestAll(name string, candidates []string) string {
	if text := Suggest(name, candidates); name != "" && strings.HasPrefix(text, " Did you mean") {
		return text
	}
	if len(candidates) == 0 {
		return ""
	}
	return " Choose one of " + strings.Join(candidates, ", ") + "."
}

// Suggest names the candidate that was probably meant, or lists a few, as a
// sentence to append; it is empty when there is nothing to suggest.
func Suggest(name string, candidates []string) string {
	most := max(2, len(name)/3)
	if len(name) < 3 {
		most = 1 // of two letters, two changed leave nothing
	}
	best, distance := "", 1+most
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d < distance {
			best, distance = c, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(" Did you mean %q?", best)
	case len(candidates) == 0:
		return ""
	case len(candidates) <= 6:
		return fmt.Sprintf(" There are: %s.", Quoted(candidates))
	}
	return ""
}

// Quoted lists names in their order, in quotes.
func Quoted(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	s := ""
	for i, n := range sorted {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%q", n)
	}
	return s
}
