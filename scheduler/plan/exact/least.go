package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/whole"
)

// useLeast gives modules that run on whole devices of one kind the configuration that
// uses these least within the module's budget, among those whose batches are short in
// it. Devices cost the same however long they compute, and what they idle bears more
// requests, and slower batches, than were planned for: batches of one request, which
// answer soonest, leave the least.
//
// No budget changes: a longer one for an idle module is a shorter one for a busy module,
// which needs it. Nor are long batches taken: where two or three of them fill the budget,
// an arrival that just misses one is late.
func useLeast(own *whole.Problem, sets []plan.Schedule, budgets []time.Duration) {
	for i := range sets {
		a := sets[i].OwnGroup()
		if a == nil {
			continue
		}
		if set, ok := own.Modules[i].Idlest(a.Hardware, int(math.Round(a.Machines)), budgets[i], budgets[i]/shortBatch); ok && set.Allocations[0].Batch > a.Batch {
			sets[i] = set
		}
	}
}

// shortBatch is how many batches, one after the other, fit at least into a budget in
// which they are short.
const shortBatch = 8
