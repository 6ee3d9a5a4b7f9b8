package paper

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// retreat finds a split where the one that the search ended with cannot be
// scheduled: Algorithm 2 judges a module by the worst case of its whole rate, so
// the budgets may leave the machine that serves the rest no time to collect.
// With dummy requests that hardly happens; systems without them must give the
// module more. The papers leave this open. Here the search goes back, one move
// after the other, until the objective that is left, shared in proportion, is
// enough; false where it never is. Each module is served by solve.
func (p *search) retreat(passed []state, solve solving) ([]time.Duration, bool) {
	for _, s := range slices.Backward(passed) {
		if budgets := p.DAG.Stretch(s.worst, p.Pipeline.SLO); p.serves(p.resized(budgets), solve) {
			return budgets, true
		}
	}
	return nil, false
}

// solving serves a module within a budget; false where it cannot.
type solving func(module int, budget time.Duration) (plan.Schedule, bool)

// serves is whether solve serves every module within its budget.
func (p *search) serves(budgets []time.Duration, solve solving) bool {
	for i := range p.Modules {
		if _, ok := solve(i, budgets[i]); !ok {
			return false
		}
	}
	return true
}
