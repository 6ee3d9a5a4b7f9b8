package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// harpagon is the system of the Harpagon paper: Algorithm 1 with dummy generator
// and latency reassigner, Algorithm 2 with node merger and cost-direct.
func harpagon() policy {
	return policy{
		module: func(s *search, m *plan.ModuleProblem) moduleSolver {
			return s.algorithm1(m, fillMachine, plan.CollectRate)
		},
	}
}

// Start is what policy harpagon gives every module, as worst cases; false where
// it has no plan.
func Start(ready *plan.Prepared) ([]time.Duration, bool) {
	s := harpagon().search(ready)
	budgets, ok := s.divide()
	if !ok {
		return nil, false
	}
	sets, err := s.schedule(budgets)
	return plan.Worsts(sets), err == nil
}
