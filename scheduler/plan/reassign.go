package plan

import "time"

// reassign is the latency reassigner of section III-C: what a path leaves of
// the SLO, because modules answer sooner than their budgets allow or because
// the split left some over, is offered to one module after another. The module
// whose schedule becomes cheapest by it takes it, until none becomes cheaper.
//
// The paper gives the gap to a module's residual workload. Algorithm 1 is run
// again on the whole module here, which includes that case and, like the
// paper, accepts only what lowers the cost.
func (p *planner) reassign(sets []schedule) {
	for {
		best, at, saved := schedule{}, -1, 0.0
		around := p.dag.around(worsts(sets))
		for i, m := range p.modules {
			try, ok := m.solve(p.pipe.SLO - around[i])
			gain := sets[i].weight - try.weight
			if ok && cheaper(try.weight, sets[i].weight) && gain > saved {
				best, at, saved = try, i, gain
			}
		}
		if at < 0 {
			return
		}
		sets[at] = best
		if p.options.without("reassign:one") {
			return
		}
	}
}

func worsts(sets []schedule) []time.Duration {
	w := make([]time.Duration, len(sets))
	for i := range sets {
		w[i] = sets[i].worst
	}
	return w
}
