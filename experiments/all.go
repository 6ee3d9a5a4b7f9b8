package experiments

import (
	"slices"
	"strings"
)

// All lists the figures by ID. Figures of one list share
// what they measure.
func All() []Figure {
	all := slices.Concat(planningFigures(), dispatchingFigures(), coresFigures(), overloadFigures(), groupingFigures(), poolFigures(), simulatingFigures())
	slices.SortStableFunc(all, func(a, b Figure) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Find lists the figures with the ID, or with the ID before a slash:
// "symphony/table4", or "symphony" for all of its.
func Find(all []Figure, id string) []Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f Figure) bool {
		return f.ID != id && !strings.HasPrefix(f.ID, id+"/")
	})
}
