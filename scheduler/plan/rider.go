package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Riders. A processing step (a module with a function) is code of the worker
// itself, which the operating system interrupts as it likes, and often takes
// microseconds. Nobody buys a device for that. Under cost models whole and shared
// policy exact lets such steps ride on a device that an executor of the pipeline
// has anyway: they cost nothing, do not wait for the device's turn, and get
// a fixed budget. What they take from the batches beside
// them is bounded: all riders of a pipeline together use at most maxRide of one
// device, far less than the headroom that measured profiles are planned with.
const (
	maxRide    = 0.02             // of a device's time, all riders of a pipeline
	rideTime   = time.Millisecond // of budget: what the system may take to let a rider run
	rideOfSLO  = 200              // but no more than this part of the objective
	rideFactor = 2                // times its duration, for the request before it
)

// boarding chooses the riders: of all steps whose profile covers every kind of
// hardware that other modules may run on, those that use least. It takes their
// rates from the search, and the time that the longest path needs for them from
// the objective.
func (p *planner) boarding(problem *Problem) {
	if p.options.policy() != PolicyExact || p.options.costModel() == CostProportional {
		return
	}
	var steps []*scheduler
	for _, m := range p.modules {
		if m.rate > 0 && problem.Pipeline.Module(m.name).Function != "" && p.covers(problem, m) {
			steps = append(steps, m)
		}
	}
	slices.SortStableFunc(steps, func(a, b *scheduler) int { return cmp.Compare(a.ride(), b.ride()) })
	used := 0.0
	for _, m := range steps {
		if used += m.ride(); used > maxRide {
			break
		}
		m.rider = m.rate
	}
	if !p.carried() {
		for _, m := range steps {
			m.rider = 0
		}
		return
	}
	for _, m := range steps {
		if m.rider > 0 {
			m.rate = 0
			m.fare = max(rideFactor*m.slowest().duration, min(rideTime, p.pipe.SLO/rideOfSLO))
		}
	}
	pipe := *p.pipe
	pipe.SLO -= p.dag.longest(p.fares())
	if pipe.SLO <= 0 {
		for _, m := range steps {
			m.rate, m.rider = max(m.rate, m.rider), 0
		}
		return
	}
	p.declared, p.pipe = p.pipe.SLO, &pipe
}

// carried says whether a module is left that has a device.
func (p *planner) carried() bool {
	return slices.ContainsFunc(p.modules, func(m *scheduler) bool { return m.rate > 0 && m.rider == 0 })
}

// covers says whether a step can run wherever another module may.
func (p *planner) covers(problem *Problem, step *scheduler) bool {
	for _, m := range p.modules {
		if problem.Pipeline.Module(m.name).Function != "" {
			continue
		}
		for _, c := range m.configs {
			if !slices.ContainsFunc(step.configs, func(own config) bool { return own.hardware == c.hardware }) {
				return false
			}
		}
	}
	return true
}

// slowest is the slowest way to run the smallest batch.
func (s *scheduler) slowest() config {
	return slices.MaxFunc(s.configs, func(a, b config) int {
		return cmp.Or(cmp.Compare(b.batch, a.batch), cmp.Compare(a.duration, b.duration))
	})
}

// ride is the share of a device that the step uses, one batch for each request.
func (s *scheduler) ride() float64 { return math.Max(s.rate, s.rider) * s.slowest().duration.Seconds() }

// fares are the budgets of the riders; 0 for all others.
func (p *planner) fares() []time.Duration {
	list := make([]time.Duration, len(p.modules))
	for i, m := range p.modules {
		list[i] = m.fare
	}
	return list
}

// board writes the riders into schedules and budgets: each on a kind of hardware
// that the plan uses, of a neighbour's where it can.
func (p *planner) board(sets []schedule, budgets []time.Duration) ([]schedule, []time.Duration) {
	if p.declared == 0 {
		return sets, budgets
	}
	sets, budgets = slices.Clone(sets), slices.Clone(budgets)
	for i, m := range p.modules {
		if m.rider == 0 {
			continue
		}
		c := m.carriedBy(p.carrier(sets, i))
		used := m.ride()
		c.weight, c.price = 0, 0
		t := tranche{config: c, machines: used, rate: m.rider, collect: m.rider, period: c.duration, worst: 2 * c.duration, rides: true}
		sets[i] = schedule{tranches: []tranche{t}, worst: t.worst}
		budgets[i] = m.fare
	}
	return sets, budgets
}

// carriedBy is how a rider runs on a kind of hardware: in the largest batches of
// which two fit into its budget, since requests may come in bursts.
func (s *scheduler) carriedBy(hardware string) config {
	best := s.slowest()
	for _, c := range s.configs {
		if c.hardware == hardware && c.concurrency == 1 && rideFactor*c.duration <= s.fare && (best.hardware != hardware || c.batch > best.batch) {
			best = c
		}
	}
	return best
}

// carrier is the hardware of a module that the plan runs: one next to module i, or
// any.
func (p *planner) carrier(sets []schedule, i int) string {
	near := slices.Concat(p.dag.up[i], p.dag.down[i])
	for k := range sets {
		near = append(near, k)
	}
	for _, k := range near {
		if p.modules[k].rider == 0 && len(sets[k].tranches) > 0 {
			return sets[k].tranches[0].hardware
		}
	}
	return ""
}
