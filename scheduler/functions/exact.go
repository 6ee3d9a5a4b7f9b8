package functions

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// mostSubsets is the largest number of applications for which every partition
// is looked at: 3^14 pairs of a subset and its rest take some ten milliseconds, and each
// further application three times as long.
const mostSubsets = 14

// exact finds the best partition among all where there are few applications,
// and otherwise the best one into neighbours, improved by moving single
// applications, with a bound that holds for all partitions. Once the search must
// end, what remains of it is left out; all subsets take milliseconds and are not
// interrupted.
func (s *planner) exact(out *Plan) []cluster {
	if len(s.apps) <= mostSubsets && !s.ended() {
		groups := s.subsets()
		out.Status = Optimal
		out.LowerBound = perRequest(total(groups), out.Rate)
		return groups
	}
	groups := s.polish(s.contiguous())
	bound := s.bound()
	if !s.stopped {
		bound = math.Max(bound, s.relaxed())
	}
	out.LowerBound = perRequest(bound, out.Rate)
	if total(groups) <= bound*(1+optimalityGap) {
		out.Status = Optimal
	}
	return groups
}

func perRequest(spending, rate float64) float64 {
	if rate == 0 || math.IsInf(spending, 1) {
		return 0
	}
	return spending / rate
}

// subsets is the least cost over all partitions, by dynamic programming over
// subsets: the first application of a subset shares a group with some of the
// others, and the rest is a smaller subset. Of partitions that cost the same,
// the first found has the larger first group.
func (s *planner) subsets() []cluster {
	n := len(s.apps)
	if n == 0 {
		return nil
	}
	size := 1 << n
	demands := make([]demand, size)
	single := make([]float64, size) // what a subset costs as one group
	for set := 1; set < size; set++ {
		top := bits.Len(uint(set)) - 1 // the longest objective is folded last
		a := s.apps[top]
		if rest := set &^ (1 << top); rest == 0 {
			demands[set] = alone(a.slo, a.rate)
		} else {
			demands[set] = demands[rest].join(a.slo, a.rate)
		}
		single[set] = s.catalogue.spending(demands[set])
	}
	least := make([]float64, size)
	choice := make([]int, size)
	for set := 1; set < size; set++ {
		least[set] = math.Inf(1)
		first := set & -set
		others := set &^ first
		for with := others; ; with = (with - 1) & others {
			group := first | with
			if c := single[group] + least[set&^group]; c < least[set]*(1-costTolerance) || choice[set] == 0 {
				least[set], choice[set] = c, group
			}
			if with == 0 {
				break
			}
		}
	}
	var groups []cluster
	for set := size - 1; set != 0; set &^= choice[set] {
		groups = append(groups, s.cluster(s.members(choice[set])))
	}
	return groups
}

// members of a subset, in order of objectives.
func (s *planner) members(set int) []app {
	var list []app
	for ; set != 0; set &= set - 1 {
		list = append(list, s.apps[bits.TrailingZeros(uint(set))])
	}
	return list
}

// inOrder sorts groups by their shortest objectives.
func inOrder(groups []cluster) []cluster {
	slices.SortStableFunc(groups, func(a, b cluster) int { return cmp.Compare(a.demand.first, b.demand.first) })
	return groups
}
