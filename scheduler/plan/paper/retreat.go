package paper

import (
	"slices"
	"time"
)

// retreat finds a split where the one that the search ended with cannot be
// scheduled: Algorithm 2 judges a module by the worst case of its whole rate, so
// the budgets may leave the machine that serves the rest no time to collect.
// With dummy requests that hardly happens; systems without them must give the
// module more. The papers leave this open. Here the search goes back, one move
// after the other, until the objective that is left, shared in proportion, is
// enough; false where it never is. serves is whether budgets can be scheduled.
func (p *search) retreat(passed []state, serves func(budgets []time.Duration) bool) ([]time.Duration, bool) {
	for _, s := range slices.Backward(passed) {
		if budgets := p.DAG.Stretch(s.worst, p.Pipeline.SLO); serves(p.resized(budgets)) {
			return budgets, true
		}
	}
	return nil, false
}

// serves is whether every module can be served within its budget.
func (p *search) serves(budgets []time.Duration) bool {
	_, err := p.schedule(budgets)
	return err == nil
}

// collects is whether every module can be served within its budget without dummy requests.
func (p *search) collects(budgets []time.Duration) bool {
	for i := range p.Modules {
		if _, ok := p.solveOwn(i, budgets[i]); !ok {
			return false
		}
	}
	return true
}
