package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// UseLeast gives modules that run on whole devices of one kind the configuration that
// uses these least within the module's budget, among those whose batches are short in
// it. Devices cost the same however long they compute, and what they idle bears more
// requests, and slower batches, than were planned for: batches of one request, which
// answer soonest, leave the least.
//
// No budget changes: a longer one for an idle module is a shorter one for a busy module,
// which needs it. Nor are long batches taken: where two or three of them fill the budget,
// an arrival that just misses one is late.
func (p *wholeProblem) UseLeast(sets []plan.Schedule, budgets []time.Duration) {
	for i := range sets {
		a := sets[i].OwnGroup()
		if a == nil {
			continue
		}
		if set, ok := p.Modules[i].idlest(a.Hardware, int(math.Round(a.Machines)), budgets[i], budgets[i]/shortBatch); ok && set.Allocations[0].Batch > a.Batch {
			sets[i] = set
		}
	}
}

// shortBatch is how many batches, one after the other, fit at least into a budget in
// which they are short.
const shortBatch = 8

// idlest is the schedule of n devices of one kind that uses them least, by
// plan.ModuleProblem.Serves, among those of one configuration within the budget whose
// batches take at most that duration; false where there is none. Of configurations that
// use them nearly as little it is that of the largest batch: what a batch costs besides
// computing is not in its duration.
func (w *wholeModule) idlest(hardware string, n int, budget, duration time.Duration) (plan.Schedule, bool) {
	var able []plan.Config
	most := 0.0
	for _, k := range w.kinds {
		for _, c := range k.configs {
			if needed, fits := devicesNeeded(&c, w.ModuleProblem, budget); fits && needed <= n && c.Hardware == hardware && c.Duration <= duration {
				able = append(able, c)
				most = max(most, w.Serves(&c, budget.Seconds()))
			}
		}
	}
	if most == 0 {
		return plan.Schedule{}, false
	}
	var best plan.Config
	for _, c := range able {
		if c.Batch > best.Batch && w.Serves(&c, budget.Seconds()) >= nearly*most {
			best = c
		}
	}
	return w.oneKind(member{best, n}, budget), true
}

// nearly is the share of the most that counts as nearly as much.
const nearly = 0.9
