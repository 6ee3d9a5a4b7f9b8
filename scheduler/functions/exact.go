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

// contiguous is the least cost over all partitions into neighbours in the order
// of objectives: the last group begins at some application, and what stands
// before it is a shorter problem. Every partition of policy harmonybatch is
// among them. When it must end, what is left stands alone.
func (s *planner) contiguous() []cluster {
	n := len(s.apps)
	least := make([]float64, n+1) // of the applications before each place
	begin := make([]int, n+1)     // where the last group of those begins
	for i := 1; i <= n; i++ {
		least[i] = math.Inf(1)
	}
	for from := range n {
		d, last := alone(s.apps[from].slo, s.apps[from].rate), n
		if s.ended() {
			last = from + 1
		}
		for to := from + 1; ; to++ {
			c := least[from] + s.catalogue.spending(d)
			if c < least[to]*(1-costTolerance) {
				least[to], begin[to] = c, from
			}
			if to == last {
				break
			}
			d = d.join(s.apps[to].slo, s.apps[to].rate)
		}
	}
	var groups []cluster
	for to := n; to > 0; to = begin[to] {
		groups = append(groups, s.cluster(s.apps[begin[to]:to]))
	}
	slices.Reverse(groups)
	return groups
}

// Bounds of the search for better partitions than those into neighbours.
const (
	mostPolished = 200 // applications; beyond, neighbours are left as they are
	mostRounds   = 8
	leastGain    = 1e-9 // relative to what the two groups cost
)

// polish moves single applications to other groups, or to groups of their own,
// as long as that lowers the cost: groups of neighbours are not always best.
func (s *planner) polish(groups []cluster) []cluster {
	if len(s.apps) > mostPolished {
		return groups
	}
	for range mostRounds {
		moved := false
		for i := 0; i < len(groups); i++ {
			if s.ended() {
				return inOrder(groups)
			}
			for k := 0; k < len(groups[i].members); k++ {
				if next, ok := s.move(groups, i, k); ok {
					groups, moved = next, true
					break // the group has changed; the next round looks at it again
				}
			}
		}
		if !moved {
			break
		}
	}
	return inOrder(groups)
}

// move takes the k-th application out of the i-th group and puts it where it
// saves most; false where nothing is saved.
func (s *planner) move(groups []cluster, i, k int) ([]cluster, bool) {
	from := groups[i]
	if len(from.members) == 1 {
		return nil, false // merging is the business of the programme before
	}
	a := from.members[k]
	rest := s.cluster(slices.Delete(slices.Clone(from.members), k, k+1))
	before, left := spending(from.offer, from.demand), spending(rest.offer, rest.demand)
	best, at, into := 0.0, -1, cluster{}
	for j := 0; j <= len(groups); j++ {
		if j == i {
			continue
		}
		members, old := []app{a}, 0.0
		if j < len(groups) {
			members, old = insert(groups[j].members, a), spending(groups[j].offer, groups[j].demand)
		}
		g := s.cluster(members)
		gain := before + old - left - spending(g.offer, g.demand)
		if gain > best && gain > leastGain*(before+old) {
			best, at, into = gain, j, g
		}
	}
	if at < 0 {
		return nil, false
	}
	groups = slices.Clone(groups)
	groups[i] = rest
	if at == len(groups) {
		return append(groups, into), true
	}
	groups[at] = into
	return groups, true
}

// insert keeps the order of objectives.
func insert(members []app, a app) []app {
	i := slices.IndexFunc(members, func(m app) bool { return m.slo > a.slo })
	if i < 0 {
		i = len(members)
	}
	return slices.Insert(slices.Clone(members), i, a)
}
