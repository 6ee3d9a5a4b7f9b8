package functions

import (
	"math"
	"slices"
)

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
