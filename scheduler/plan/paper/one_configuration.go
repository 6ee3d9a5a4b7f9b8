package paper

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// oneConfiguration serves the module with a single configuration: full machines
// and one that is partly used, both within the budget. It is the papers' ablation
// of several configurations a module (Harp-1c, Picc-1bpc); the rest of the policy
// stays, so dummy requests may fill the last machine, or pace it.
type oneConfiguration struct{ *algorithm1 }

func (s oneConfiguration) solve(budget time.Duration) (best plan.Schedule, found bool) {
	for _, c := range s.Configs {
		for _, extra := range s.fills(c, budget) {
			try, _, ok := s.alike(c, s.Rate+extra, budget)
			if ok && (!found || plan.Cheaper(try.Weight, best.Weight)) {
				try.Dummies = extra
				best, found = try, true
			}
		}
	}
	return best, found
}

// fills are the dummy rates worth trying when all requests go to c.
func (s oneConfiguration) fills(c plan.Config, budget time.Duration) []float64 {
	if len(s.dummies) == 0 {
		return []float64{0}
	}
	full := math.Floor(s.Rate/c.Throughput()+plan.RateTolerance) * c.Throughput()
	list := []float64{0}
	for _, want := range []float64{c.Throughput(), plan.CollectRate(c, budget)} {
		if extra := full + want - s.Rate; extra > plan.RateTolerance*s.Rate {
			list = append(list, extra)
		}
	}
	return list
}
