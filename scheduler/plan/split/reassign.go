package split

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Reassign is the latency reassigner of the Harpagon paper, section III-C: what a
// path leaves of the SLO, because modules answer sooner than their budgets allow
// or because the split left some over, is offered to one module after another. The
// module whose schedule becomes cheapest by it takes it, until none becomes
// cheaper; with once, the first takes all.
//
// The paper gives the gap to a module's residual workload. solve schedules the
// whole module i anew here, which includes that case and, like the paper, accepts
// only what lowers the cost.
func Reassign(p *plan.Prepared, sets []plan.Schedule, once bool, solve func(i int, budget time.Duration) (plan.Schedule, bool)) {
	for {
		best, at, saved := plan.Schedule{}, -1, 0.0
		around := p.DAG.Around(plan.Worsts(sets))
		for i := range p.Modules {
			try, ok := solve(i, p.Pipeline.SLO-around[i])
			gain := sets[i].Weight - try.Weight
			if ok && plan.Cheaper(try.Weight, sets[i].Weight) && gain > saved {
				best, at, saved = try, i, gain
			}
		}
		if at < 0 {
			return
		}
		sets[at] = best
		if once {
			return
		}
	}
}
