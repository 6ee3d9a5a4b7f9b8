package exact

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// waiting is a deadline that parts may wait up to, and the longest batch that they may
// have under it.
type waiting struct {
	at, longest time.Duration
}

// criticalDues are the critical deadlines of parts on a device that others use: for
// their shortest batches, and for one of them in each of its other configurations.
func criticalDues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []waiting) {
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		for _, c := range parts[i].choices[h.index] {
			takes := low - shortest + c.Duration
			for _, seconds := range demand.Critical(held.Demand(), takes.Seconds(), high.Seconds()) {
				if at := plan.ToDuration(seconds); at < high {
					list = append(list, waiting{at, max(c.Duration, shortest)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return int(a.at - b.at) })
	return slices.Compact(list)
}
