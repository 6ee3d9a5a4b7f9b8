package paper

import "github.com/harpagon/harpagon/scheduler/plan"

// clipper is Clipper as the papers compare with it: equal shares of the
// objective, one kind of hardware (the cheapest that has a plan), round robin, and the
// configuration of the largest throughput that answers in 2d. Its adaptive batch
// size has no part in it.
func clipper() plan.Policy {
	return oneKind{policy{
		lacks:  []string{"tc", "dummy", "reassign", "merge", "direct"},
		split:  "even",
		rule:   unchecked{roundRobin()},
		module: func(_ *search, m *plan.ModuleProblem) moduleSolver { return bestInTwice{m} },
	}}
}
