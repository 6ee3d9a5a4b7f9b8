package pool

import (
	"slices"
	"time"
)

// Oracle is the throughput of the paper's oracle (section 7) on the pool: all
// queries of the load are there from the start; a free base instance takes the
// largest that is left, any other the smallest, unless that violates the SLO
// there. It is 0 where not all queries can be served.
//
// It is no true bound on what a policy can reach: it serves every query, where
// a goodput may leave out one in a hundred, and another order may pack better.
func Oracle(p TrialPool, load TrialLoad) float64 {
	sizes := slices.Sorted(slices.Values(load.sizes))
	low, high := 0, len(sizes)-1
	if high < 0 {
		return 0
	}
	latency := p.table(sizes[high])
	type instance struct {
		free time.Duration
		kind int
	}
	var all []instance
	for g, n := range p.Counts {
		for range n {
			all = append(all, instance{kind: g})
		}
	}
	end := time.Duration(0)
	for low <= high {
		next := -1
		for k := range all {
			if next < 0 || all[k].free < all[next].free {
				next = k
			}
		}
		if next < 0 {
			return 0
		}
		x := &all[next]
		size := sizes[low]
		if x.kind == p.Base {
			size = sizes[high]
		}
		if latency[x.kind][size] > p.SLO {
			all = slices.Delete(all, next, next+1) // nothing is left that it may serve
			continue
		}
		if x.kind == p.Base {
			high--
		} else {
			low++
		}
		x.free += latency[x.kind][size]
		end = max(end, x.free)
	}
	return float64(len(sizes)) / end.Seconds()
}
