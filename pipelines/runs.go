package pipelines

import (
	"cmp"
	"slices"
	"time"
)

// SlowestRuns are the slowest runs of a profile on one kind of hardware, by the size of
// the batch, smallest first: none is shorter than that of a smaller batch.
type SlowestRuns []Run

// Run is how long a batch of at most that size has taken.
type Run struct {
	Batch int
	Took  time.Duration
}

// stuckRuns is how many times its slowest run a batch takes when it is not slow but stuck.
const stuckRuns = 10

// SlowestRuns are those of batches with at most so many beside each other.
func (p Profile) SlowestRuns(hardware string, concurrency int) (all SlowestRuns) {
	for _, at := range p.Points {
		if at.Hardware == hardware && at.Concurrency <= max(concurrency, 1) {
			all = append(all, Run{at.Batch, at.Duration + at.Spread})
		}
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(a.Batch-b.Batch, cmp.Compare(b.Took, a.Took)) })
	all = slices.CompactFunc(all, func(a, b Run) bool { return a.Batch == b.Batch })
	for i := 1; i < len(all); i++ {
		all[i].Took = max(all[i].Took, all[i-1].Took)
	}
	return all
}

// Stuck is after what time a batch of that size takes far longer than its profile: ten
// times the slowest run; 0 where nothing is known of the hardware.
func (s SlowestRuns) Stuck(batch int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(s, batch, func(r Run, batch int) int { return r.Batch - batch })
	return stuckRuns * s[min(i, len(s)-1)].Took
}
