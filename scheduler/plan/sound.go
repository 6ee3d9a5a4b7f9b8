package plan

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// prove fills in what a dispatcher can really keep: Proven of every module,
// Sound and Proof of the plan.
//
// Theorem 1 is an approximation: a dispatcher cannot always collect all groups
// as fast as it claims. The processor-demand test (package demand) decides
// that exactly for evenly paced requests. Proven is the least latency L such
// that windows L - d pass it, and what single requests need besides (margin);
// the plan is sound when that is within the budget of every module.
func (p *Prepared) prove(out *Plan) {
	out.Sound = true
	single := map[string]bool{}
	for _, m := range p.Modules {
		single[m.Name] = m.Single
	}
	for i := range out.Modules {
		m := &out.Modules[i]
		if g := m.alone(); g != nil && single[m.Name] {
			out.Sound = m.proveAlone(g) && out.Sound
			continue
		}
		fits := m.prove()
		out.Sound = out.Sound && fits
		if fits && !p.Options.Lacks("tc") {
			out.Sound = m.widen() && out.Sound
		}
	}
	out.Proof = MeanRate
	if out.Sound && p.EvenEverywhere() {
		out.Proof = EveryRequest
	}
}

// proveAlone is prove where every request has a batch of its own, in that group.
func (m *Module) proveAlone(g *Group) bool {
	m.Proven = max(g.Duration, g.Deadline)
	if g.Batch > 1 { // which waits for others, in vain
		m.Proven += g.Window
	}
	return m.Proven <= m.Budget
}

func (m *Module) prove() bool {
	groups, durations := m.demands()
	least := demand.Least(m.Rate+m.DummyRate, groups, durations)
	if math.IsInf(least, 1) {
		return false
	}
	m.Proven = ToDuration(least)
	if m.Proven > m.Budget && m.Proven <= m.Budget+provenTolerance {
		m.Proven = m.Budget
	}
	return m.Proven <= m.Budget
}

// provenTolerance covers the rounding of sums in demand.Least: a group that is alone
// needs exactly what Theorem 1 says, no nanosecond more.
const provenTolerance = 100 * time.Nanosecond

// widen adds to the proven latency what single requests need beyond a fluid, and
// gives the groups of a module the windows that the proof rests on where those of
// Theorem 1 are too short. It is false where the budget is too short for these.
func (m *Module) widen() bool {
	busy := m.busy()
	m.Proven += SingleMargin(m.Rate, busy, m.Proven)
	if m.Proven > m.Budget && counted(m.Rate, promising(busy, m.Budget)) {
		m.Proven = m.Budget
	}
	groups, _ := m.demands()
	if demand.Test(m.Rate+m.DummyRate, groups).Sound && (len(busy) < 2 || counted(m.Rate, busy)) {
		return m.Proven <= m.Budget
	}
	m.Groups = promising(m.Groups, min(m.Proven, m.Budget))
	return m.Proven <= m.Budget && (len(busy) < 2 || !m.shares() || counted(m.Rate, m.busy()))
}

// shares reports whether a group runs on a shared device. The test of such a device counts batches
// that follow each other one period apart. Where a request may come before the release of its
// batch, which then starts sooner, they may follow each other faster.
func (m *Module) shares() bool {
	return slices.ContainsFunc(m.Groups, func(g Group) bool { return g.Deadline > 0 })
}

func (m *Module) demands() (groups []demand.Group, durations []float64) {
	for _, g := range m.Groups {
		period := float64(g.Batch) / (g.Rate + g.DummyRate)
		fill := float64(g.Batch)
		if g.Period < ToDuration(period) { // batches leave partly filled
			period = g.Period.Seconds()
			fill = (g.Rate + g.DummyRate) * period
		}
		groups = append(groups, demand.Group{Batch: fill, Period: period, Window: g.Window.Seconds()})
		durations = append(durations, max(g.Duration, g.Deadline).Seconds())
	}
	return groups, durations
}

// EvenEverywhere reports whether an even source reaches every module evenly: no
// module scatters, thins out or has a rate of its own.
func (p *Prepared) EvenEverywhere() bool {
	for _, m := range p.Pipeline.Modules {
		if !even(m) {
			return false
		}
	}
	return true
}

func even(m pipelines.Module) bool {
	return !m.Scatter && (m.Fanout == 1 || m.Fanout == 0) && m.Rate == 0
}

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

// counted reports whether the groups are known to keep their windows for single requests, however
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
