package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/whole"
)

// useLeast gives modules that run on whole devices of one kind the configuration that
// uses these least, as far as paths leave time for it. Devices cost the same however
// long they compute, and what they idle bears more requests, and slower batches, than
// were planned for: batches of one request, which answer soonest, leave the least.
func useLeast(p *plan.Prepared, own *whole.Problem, sets []plan.Schedule) (changed bool) {
	var list []int
	for i := range sets {
		if len(sets[i].Allocations) != 1 {
			continue
		}
		if a := sets[i].Allocations[0]; a.Deadline == 0 && !a.Rides {
			list = append(list, i)
		}
	}
	for k, i := range list {
		a := sets[i].Allocations[0]
		left := p.Pipeline.SLO - p.DAG.LongestThrough(plan.Worsts(sets), i)
		budget := sets[i].Worst + max(0, left)/time.Duration(len(list)-k)
		set, ok := own.Modules[i].Idlest(a.Hardware, int(math.Round(a.Machines)), budget)
		if !ok || set.Allocations[0].Config == a.Config {
			continue
		}
		sets[i] = set
		changed = true
	}
	return changed
}
