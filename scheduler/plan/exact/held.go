package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// mostSteps of the demand of a held device are looked at.
const mostHeldSteps = 4096

// waiting is a deadline that parts may wait up to, and the longest batch that they may
// have under it.
type waiting struct {
	at, longest time.Duration
}

// critical are the deadlines at which batches that together take so long may just be
// done on a device that others use: the least t in every interval between two
// deadlines of the others for which
//
//	what is due by t  +  the longest batch that is due later  +  takes  <=  t .
//
// A later deadline in the same interval serves nothing: the first batch is in time
// already, and the next ones are due sooner after it, since the window is what the
// deadline leaves of a budget. Beyond the end of the busy period one is enough.
func critical(held *plan.HeldDevice, takes, until time.Duration) (list []time.Duration) {
	tasks := held.Demand()
	next := make([]float64, len(tasks))
	use, rise, longest := 0.0, takes.Seconds(), 0.0
	for i, c := range tasks {
		next[i] = c.Deadline
		use += c.Duration / c.Period
		rise += math.Max(0, 1-c.Deadline/c.Period) * c.Duration
		longest = math.Max(longest, c.Duration)
	}
	done := 0.0
	for t, n := 0.0, 0; n < mostHeldSteps && t < until.Seconds(); n++ {
		following, block := math.Inf(1), 0.0
		for i, c := range tasks {
			following = math.Min(following, next[i])
			if c.Deadline > t {
				block = math.Max(block, c.Duration)
			}
		}
		if start := math.Max(t, done+block+takes.Seconds()); start < following {
			list = append(list, plan.ToDuration(start))
			if start*(1-use) >= rise+longest {
				break
			}
		}
		t = following
		for i, c := range tasks {
			for next[i] <= t {
				done += c.Duration
				next[i] += c.Period
			}
		}
	}
	return list
}

// criticalDues are the critical deadlines of parts on a device that others use: for
// their shortest batches, and for one of them in each of its other configurations.
func criticalDues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []waiting) {
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		for _, c := range parts[i].choices[h.index] {
			for _, at := range critical(held, low-shortest+c.Duration, high) {
				if at < high {
					list = append(list, waiting{at, max(c.Duration, shortest)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return int(a.at - b.at) })
	return slices.Compact(list)
}
