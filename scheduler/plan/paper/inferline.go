package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// inferline is InferLine as the papers compare with it: splitting by throughput,
// round robin, and the configuration of the largest throughput a price that
// answers in 2d. Its simulator and tuner have no part in it.
func inferline() policy {
	return policy{
		lacks:  []string{"tc", "dummy", "reassign", "merge", "direct"},
		split:  "throughput",
		rule:   unchecked{roundRobin()},
		module: func(_ *search, m *plan.ModuleProblem) moduleSolver { return bestInTwice{m} },
	}
}

// bestInTwice serves a module with the best configuration that answers in 2d: T/t
// machines for T requests per second, without regard to the one that is only
// partly used. Where the whole rate is below one machine's throughput the claim of 2d may
// be one that no dispatcher can keep; Plan.Sound is then false.
type bestInTwice struct{ *plan.ModuleProblem }

func (m bestInTwice) solve(budget time.Duration) (plan.Schedule, bool) {
	for _, c := range m.Configs { // best ratio first
		if worst := 2 * c.Duration; worst <= budget {
			n := m.Rate / c.Throughput()
			t := plan.Allocation{Config: c, Machines: n, Rate: m.Rate, Collect: m.Rate, Worst: worst}
			return plan.Schedule{Allocations: []plan.Allocation{t}, Worst: worst, Weight: c.Weight * t.Charged()}, true
		}
	}
	return plan.Schedule{}, false
}
