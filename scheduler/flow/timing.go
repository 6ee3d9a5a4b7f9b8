package flow

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// DispatchGroups are the groups of a planned module as policy tc takes them, in the
// order of the plan, with durations by batch size from the profile.
func DispatchGroups(declared *pipelines.Module, planned *plan.Module) []tc.Group {
	var all []tc.Group
	for _, g := range planned.Groups {
		all = append(all, tc.Group{
			Batch: g.Batch, Window: g.Window, Duration: g.Duration, Period: g.Period, Deadline: g.Deadline,
			Durations: Durations(declared, g.Hardware, g.Batch, g.Concurrency, g.Duration),
		})
	}
	return all
}

// Durations of batches of 1 to batch requests: each takes as long as the
// smallest profiled batch that is at least as large, since engines pad, and at
// most full, the time of a batch that is full. It is nil where there is no such
// module or batch.
func Durations(m *pipelines.Module, hardware string, batch, concurrency int, full time.Duration) []time.Duration {
	if m == nil || batch < 1 {
		return nil
	}
	out := make([]time.Duration, batch)
	for n := range out {
		out[n] = full
		size := batch
		for _, p := range m.Profile.Points {
			if p.Hardware == hardware && max(p.Concurrency, 1) == max(concurrency, 1) && p.Batch > n && p.Batch < size {
				size, out[n] = p.Batch, min(p.Duration, full)
			}
		}
	}
	return out
}

// DurationTable is Durations for everything that was profiled on the hardware, one
// batch at a time, up to the largest batch; nil where nothing was.
func DurationTable(m *pipelines.Module, hardware string) []time.Duration {
	largest, full := 0, time.Duration(0)
	for _, p := range m.Profile.Points {
		if p.Hardware == hardware && p.Concurrency <= 1 && p.Batch > largest {
			largest, full = p.Batch, p.Duration
		}
	}
	return Durations(m, hardware, largest, 1, full)
}

// LeastTime is the time of the quickest batch that the groups run; 0 for none.
func LeastTime(groups []tc.Group) time.Duration {
	least := time.Duration(-1)
	for _, g := range groups {
		quickest := g.Duration
		if len(g.Durations) > 0 {
			quickest = min(quickest, g.Durations[0])
		}
		if least < 0 || quickest < least {
			least = quickest
		}
	}
	return max(least, 0)
}
