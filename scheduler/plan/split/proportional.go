package split

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Cheapest is the least cost of serving the module within the budget, under the
// proportional cost model, over all sets of groups that a dispatcher can keep.
//
// Theorem. Among the sound plans of one module with rate T and budget L, one
// with a single configuration is cheapest, at
//
//	min over (b, d, p) with d < L of  p·d / min(b/T, max(g, L - d)) ,
//
// where g = 1/T for requests that come one by one, and else 0.
//
// Proof. Take any sound plan and let T' >= T be its rate with dummy requests.
// Each of its groups releases a batch of b that is due W <= L - d later, and
// the stream brings b requests in no less than b/T'; so T' >= b/(L - d), for
// every configuration in use. The plan costs the sum of f·p·d/b over its
// groups, whose rates f add up to T', hence at least T'·p·d/b for the
// configuration in use whose p·d/b is least, hence at least
// max(T, b/(L - d))·p·d/b. That is what this configuration costs alone. Alone
// it is sound: with one group the processor-demand test is b/T' <= W.
//
// Requests that are counted singly need no batch while none comes: where the window
// is shorter than 1/T every request has a batch of its own, all others of which are
// dummies, and T' = b·T is enough.
//
// The proof uses of soundness only that T' >= b/(L - d). Plans in the papers'
// reading fulfil that as well, since their worst case d + b/w has w <= T';
// so they are not cheaper under the same budget either.
//
// A machine that runs s batches side by side serves s·b/d, so p/s takes the
// place of p. Budgets are whole nanoseconds, and devices are unlimited.
func Cheapest(m *plan.ModuleProblem, budget time.Duration) (plan.Schedule, bool) {
	if m.Rate == 0 {
		return plan.Schedule{}, true
	}
	best, found := plan.Schedule{}, false
	for _, c := range m.Configs {
		rate := m.Rate
		if plan.Collection(c.Batch, rate) > budget-c.Duration {
			if rate = plan.CollectRate(c, budget); m.Single { // a request and dummies, at the most
				rate = min(rate, float64(c.Batch)*m.Rate)
			}
		}
		if rate < m.Rate {
			continue // the budget leaves no window at all
		}
		machines := rate / c.Throughput()
		if weight := c.Weight * machines; !found || plan.Cheaper(weight, best.Weight) {
			found = true
			t := plan.Allocation{Config: c, Machines: machines, Rate: rate, Collect: rate, Worst: min(budget, plan.PartialWorstCase(c, rate))}
			best = plan.Schedule{Allocations: []plan.Allocation{t}, Dummies: rate - m.Rate, Worst: t.Worst, Weight: weight}
		}
	}
	return best, found
}
