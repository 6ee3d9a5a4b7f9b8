package plan

import (
	"slices"
	"time"
)

// Lend gives what paths leave of the objective to groups on devices of their own that
// give each request a batch of its own, up to the time between two requests; true where
// it did. The promise needs no window there, but where batches take longer than their
// profile, or requests come closer together, one keeps it all the same.
func (p *Prepared) Lend(sets []Schedule) (lent bool) {
	var list []int
	for i := range sets {
		if a := sets[i].OwnGroup(); a != nil && a.Worst-a.Duration < p.Modules[i].WholeGap() {
			list = append(list, i)
		}
	}
	for n, i := range list {
		left := p.Pipeline.SLO - p.DAG.LongestThrough(Worsts(sets), i)
		set := &sets[i]
		more := min(left/time.Duration(len(list)-n), p.Modules[i].WholeGap()-(set.Worst-set.Allocations[0].Duration))
		if more <= 0 {
			continue
		}
		set.Allocations = slices.Clone(set.Allocations)
		set.Worst += more
		set.Allocations[0].Worst = set.Worst
		lent = true
	}
	return lent
}

// OwnGroup is the group that serves a module on devices of its own; nil where there are
// several, or one that shares a device.
func (s *Schedule) OwnGroup() *Allocation {
	if len(s.Allocations) != 1 {
		return nil
	}
	if a := &s.Allocations[0]; a.Deadline == 0 && !a.Rides {
		return a
	}
	return nil
}
