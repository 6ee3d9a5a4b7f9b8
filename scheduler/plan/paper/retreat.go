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
// enough. None is the split that it ended with.
func (p *search) retreat(passed []state, last state) ([]time.Duration, bool) {
	for _, s := range slices.Backward(passed) {
		budgets := p.DAG.Stretch(s.worst, p.Pipeline.SLO)
		if _, err := p.schedule(budgets); err == nil {
			return budgets, true
		}
	}
	return last.worst, true
}
