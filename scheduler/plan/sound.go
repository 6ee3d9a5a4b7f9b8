package plan

import (
	"cmp"
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
// the plan is sound when that is within the budget of every module. Where items come in bursts
// it is their test that decides, also of plans that were made for mean rates, as the papers' are.
func (p *Prepared) prove(out *Plan) {
	out.Sound = true
	late, single, bursts, limits := true, map[string]bool{}, p.bursts(), map[string]time.Duration{}
	for _, m := range p.Modules {
		single[m.Name], limits[m.Name] = m.Single, m.Limit
	}
	read := slices.Clone(out.Modules)
	for i := range out.Modules {
		m := &out.Modules[i]
		if b := bursts[m.Name]; b.Items > 0 {
			out.Sound = m.proveBursts(b) && out.Sound
			continue
		}
		if g := m.alone(); g != nil && single[m.Name] {
			out.Sound = m.proveAlone(g) && out.Sound
			continue
		}
		fits := m.prove()
		out.Sound = out.Sound && fits
		if fits && !p.Options.Lacks("tc") {
			sound, keeps := m.widen()
			out.Sound, late = sound && out.Sound, keeps && late
		}
	}
	for i := range out.Modules {
		if m := &out.Modules[i]; limits[m.Name] > 0 && m.Proven > limits[m.Name] {
			out.Sound = false
		}
	}
	for i := range out.Modules {
		if m := &out.Modules[i]; !out.Sound && p.Options.policy() != PolicyExact {
			m.Burst, m.AnyPhase, m.Groups = 0, false, read[i].Groups // as it was made
		}
	}
	out.Proof = NoProof
	covered := func(m *ModuleProblem) bool { return m.Rate == 0 || m.Single || bursts[m.Name].Items > 0 }
	if out.Sound && late && !slices.ContainsFunc(p.Modules, func(m *ModuleProblem) bool { return !covered(m) }) {
		out.Proof, out.Covers = EveryRequest, &Covers{Arrivals: pipelines.ArrivalsEven, Burst: 1}
		out.Covers.streams(p.Pipeline.Sending())
		for _, b := range bursts {
			out.Covers.Burst = max(out.Covers.Burst, b.Items)
		}
	}
}

// bursts are those in which items come to modules, by what a plan for even requests says of them;
// none where items are asked to count by their mean rate, or requests come at random.
func (p *Prepared) bursts() map[string]demand.Bursts {
	all := map[string]demand.Bursts{}
	kind, _, _, err := pipelines.SplitArrivals(p.Pipeline.Arrivals)
	even := err == nil && kind == pipelines.ArrivalsEven && p.Pipeline.Attainment != pipelines.NoAttainment
	most := p.Pipeline.Bursts()
	for _, m := range p.Modules {
		switch {
		case p.Options.policy() == PolicyExact:
			all[m.Name] = m.Bursts
		case even && m.Rate > 0 && (most[m.Name] != 1 || !p.Pipeline.ComeSingly() || m.Rate < p.Pipeline.Rate*(1-RateTolerance)):
			all[m.Name] = burstsOf(p.Pipeline, cmp.Or(most[m.Name], math.MaxInt32))
		}
	}
	return all
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

// widen asks what single requests need beyond a fluid, and gives the groups of a module the
// windows that the proof rests on where those of Theorem 1 are too short. Where batches leave
// partly filled it is part of the proven latency. Full batches keep all requests of an even
// stream without it, and with it those that come later, too (see package demand).
//
// The test of a shared device counts batches that follow each other one period apart. Where
// batches are not full a request may come before the release of its batch, which then starts
// sooner.
func (m *Module) widen() (sound, late bool) {
	busy := m.busy()
	several, full := len(busy) > 1, !slices.ContainsFunc(busy, (Group).partly)
	apart := !several || full || !slices.ContainsFunc(m.Groups, func(g Group) bool { return g.Deadline > 0 })
	margin := time.Duration(0)
	if several {
		margin = SingleMargin(m.Rate)
	}
	promise := m.Proven + margin
	if promise > m.Budget && promise <= m.Budget+provenTolerance {
		promise = m.Budget
	}
	if !full {
		m.Proven = promise
	}
	groups, _ := m.demands()
	for i := range groups {
		groups[i].Window -= margin.Seconds()
	}
	if !demand.Test(m.Rate+m.DummyRate, groups).Sound {
		m.Groups = promising(m.Groups, min(promise, m.Budget))
	}
	return m.Proven <= m.Budget && apart, promise <= m.Budget && apart
}

// partly reports whether batches of the group leave partly filled.
func (g Group) partly() bool {
	return (g.Rate+g.DummyRate)*(g.Period+time.Nanosecond).Seconds() < float64(g.Batch)*(1-RateTolerance)
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

// SingleMargin is what must be added to the latency that several groups of a module promise
// a stream of so many requests per second: the processor-demand test takes it for a fluid,
// and requests that are counted singly may be late by the time between two (package demand).
func SingleMargin(rate float64) time.Duration { return ToDuration(1 / rate) }

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
