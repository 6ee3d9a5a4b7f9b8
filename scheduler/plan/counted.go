package plan

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// The processor-demand test takes the stream for a fluid. Requests are counted
// singly, and where several groups share a stream and start batches that are not
// full, some may find no batch in time: package demand shows that they are late
// by one inter-arrival time at the most. Which plans need less is found by playing
// requests against them.

// Playing requests against a module.
const (
	countedRequests = 1 << 13
	marginSteps     = 4 // in which an inter-arrival time is added
)

// SingleMargin is what must be added to the latency that a module's groups promise,
// so that requests that are counted singly keep it.
func SingleMargin(rate float64, groups []Group, latency time.Duration) time.Duration {
	if len(groups) < 2 {
		return 0
	}
	gap := ToDuration(1 / rate)
	for k := range time.Duration(marginSteps) {
		if more := k * gap / marginSteps; counted(rate, promising(groups, latency+more)) {
			return more
		}
	}
	return gap
}

// counted says whether the groups are known to keep their windows for single requests, however
// many come: where all batches fill, or their schedules begin anew among those that are played.
func counted(rate float64, groups []Group) bool {
	schedules, full := make([]demand.Schedule, len(groups)), true
	for i, g := range groups {
		full = full && (g.Rate+g.DummyRate)*(g.Period+time.Nanosecond).Seconds() >= float64(g.Batch)*(1-RateTolerance)
		schedules[i] = demand.Schedule{Room: g.Batch, Period: g.Period, Window: g.Window, Spare: g.spare()}
	}
	kept, always := demand.Counted(rate, schedules, countedRequests)
	return kept && (full || always)
}

// spare is how much later than the schedule a batch of devices of its own may
// start without delay to those that follow on them.
func (g *Group) spare() time.Duration {
	if g.Deadline > 0 {
		return 0
	}
	return max(0, time.Duration(math.Ceil(g.Machines-RateTolerance))*g.Period-g.Duration)
}

// promising gives the groups the windows with which they all promise a latency.
func promising(groups []Group, latency time.Duration) []Group {
	out := make([]Group, len(groups))
	for i, g := range groups {
		g.Window = latency - max(g.Duration, g.Deadline)
		out[i] = g
	}
	return out
}

// busy are the groups that receive requests.
func (m *Module) busy() []Group {
	var list []Group
	for _, g := range m.Groups {
		if g.Rate+g.DummyRate > RateTolerance*m.Rate {
			list = append(list, g)
		}
	}
	return list
}
