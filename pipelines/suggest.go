package pipelines

import (
	"fmt"
	"slices"

	"github.com/agext/levenshtein"
)

// suggest names the candidate that was probably meant, or lists a few, as a
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
