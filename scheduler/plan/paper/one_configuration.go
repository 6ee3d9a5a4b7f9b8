package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// oneConfiguration serves the module with a single configuration: full machines and one
// that is partly used, both within the budget, the first in the order of Algorithm 1
// that can. It is the papers' ablation of several configurations a module (Harp-1c,
// Picc-1bpc). The dummy generator has nothing to do there: it moves what is left over
// for worse configurations to a better one (Piccolo, Theorem 2), and there is no worse
// one.
type oneConfiguration struct{ *algorithm1 }

func (s oneConfiguration) solve(budget time.Duration) (plan.Schedule, bool) {
	for _, c := range s.Configs {
		if set, _, ok := s.alike(&c, s.Rate, budget); ok {
			return set, true
		}
	}
	return plan.Schedule{}, false
}
