package experiments

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/experiments/cores"
	"github.com/harpagon/harpagon/experiments/dispatching"
	"github.com/harpagon/harpagon/experiments/figure"
	"github.com/harpagon/harpagon/experiments/grouping"
	"github.com/harpagon/harpagon/experiments/overload"
	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/experiments/pools"
	"github.com/harpagon/harpagon/experiments/simulating"
)

// All lists the figures by ID. Figures of one list share
// what they measure.
func All() []figure.Figure {
	all := slices.Concat(planning.Figures(), dispatching.Figures(), cores.Figures(), overload.Figures(), grouping.Figures(), pools.Figures(), simulating.Figures())
	slices.SortStableFunc(all, func(a, b figure.Figure) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Find lists the figures with the ID, or with the ID before a slash:
// "symphony/table4", or "symphony" for all of its.
func Find(all []figure.Figure, id string) []figure.Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f figure.Figure) bool {
		return f.ID != id && !strings.HasPrefix(f.ID, id+"/")
	})
}
