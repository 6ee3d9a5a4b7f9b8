package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Cost model shared: whole devices again, but what a module needs beyond full
// devices of its own may run on a device that it shares with others.
//
// A group on a shared device is a task: a batch is closed every P seconds, runs
// for d without interruption and must be done R after it was closed. A device
// takes the tasks that pass the non-preemptive demand test with blocking
// (demand.NonPreemptive) and whose memory fits together. A request waits at most
// the window W = L - R for its batch. A group that receives the whole stream has
// P <= W, and P <= b/f for the rate f that it receives. Beside devices of its
// module's own it may take longer: see assignment.
//
// Lower bound: a group uses d/P of a device whatever it runs on, and P is at
// most min(b/T, L - d) T/f; so no plan costs less than the proportional optimum.
// Plans pay for whole devices, so the bound is raised to the next sum of prices
// that devices can make.
//
// Devices that others hold have their tasks already and take more as long as the
// test holds. Their use is paid in proportion: never less than the share that it
// is, so that the bound holds, but for sums of whole prices.
//
// Which groups go together is a bin packing in which the sizes can be chosen,
// and is searched by heuristics: several splits of the SLO, in each several ways
// to divide the modules and several orders of packing. Status Optimal therefore
// means that the bound was reached; Feasible plans carry the gap.

// packer packs the modules of one or several pipelines.
type packer struct {
	problems   []*problem
	kinds      []sharedKind
	held       []bin       // devices of others that have room
	withMargin bool        // leave a margin for requests that are counted singly; see margin
	rejected   bool        // single requests do not keep some packing that was looked at
	unbounded  bool        // no bound is asked for
	known      *wholeBound // the bound, once it was asked for

	steps [][]split.Steps // see ownSteps
	work  int             // see mostWork

	// Under the budgets that are looked at:
	divided      []divided              // by module of all pipelines and rule
	arrangements map[string]arrangement // of parts, by what is arranged
	key          []byte                 // of the last one looked up
}

// allBudgets are the budgets of all modules of all pipelines.
type allBudgets [][]time.Duration

// packing is a complete plan: what every module runs alone and what it shares.
type packing struct {
	budgets allBudgets
	parts   []assignment
	bins    []bin
	weight  float64
}

// choose lists how a residual rate may run on shared devices.
func (s *packer) choose(p *assignment, configs []plan.Config) {
	p.choices, p.size = make([][]candidate, len(s.kinds)), math.Inf(1)
	for k := range configs {
		c := &configs[k]
		if c.Concurrency > 1 || c.Duration >= p.budget {
			continue
		}
		i := slices.IndexFunc(s.kinds, func(h sharedKind) bool { return h.hardware == c.Hardware })
		choice := candidate{Config: c, filling: filling(p.residual, c)}
		p.choices[i] = append(p.choices[i], choice)
		if use := float64(c.Duration) / float64(min(p.rest.period(p.budget-c.Duration), choice.filling)); use <= 1+plan.RateTolerance {
			p.size = math.Min(p.size, c.Weight*use)
		}
	}
}

// divide makes the part of a module under a budget; false when the rule has
// nothing to offer.
func (s *packer) divide(pipeline, module int, budget time.Duration, by division) (assignment, bool) {
	m := s.problems[pipeline].Modules[module]
	p := assignment{pipeline: pipeline, module: module, by: by, budget: budget}
	if m.Rate == 0 {
		return p, by == dedicated
	}
	if by == dedicated {
		set, ok := s.problems[pipeline].own.Modules[module].Within(budget)
		p.dedicated = set.Allocations
		return p, ok
	}
	best, value := plan.Config{}, math.Inf(1)
	full := 0.0
	for _, c := range m.Configs {
		n := math.Floor(m.Rate/c.Throughput() + plan.RateTolerance)
		if by == oneDeviceLess {
			n--
		}
		if n < 0 || n > 0 && c.Duration.Seconds()+c.Interval()/n > budget.Seconds() || c.Duration >= budget {
			continue
		}
		// What a request costs on full devices; with none of them, what the
		// whole module uses of a shared one.
		v := c.Unit()
		if n == 0 {
			use := float64(c.Duration) / float64(min(wholeStream(m).period(budget-c.Duration), filling(m.Rate, &c)))
			if use > 1+plan.RateTolerance {
				continue
			}
			v = c.Weight * use / m.Rate
		}
		if v < value {
			best, value, full = c, v, n
		}
	}
	if math.IsInf(value, 1) {
		return p, false
	}
	return s.dividedBy(p, best, full)
}

// dividedBy gives a part so many full devices of its own; false when what is left fits
// on no device.
func (s *packer) dividedBy(p assignment, c plan.Config, full float64) (assignment, bool) {
	m := s.problems[p.pipeline].Modules[p.module]
	p.residual, p.rest, p.margin, p.dedicated = m.Rate, wholeStream(m), 0, nil
	if full > 0 {
		t := plan.Allocation{Config: c, Machines: full, Rate: math.Min(m.Rate, full*c.Throughput()), Worst: p.budget}
		t.Collect, t.Period = t.Rate, plan.ToDuration(c.Interval()/full)
		p.dedicated, p.residual = []plan.Allocation{t}, m.Rate-t.Rate
		p.rest = restOf(m.Rate, &t, p.budget)
		if s.withMargin {
			p.margin = plan.ToDuration(1 / m.Rate)
		}
	}
	if p.residual <= plan.RateTolerance*m.Rate {
		p.residual = 0
		return p, true
	}
	s.choose(&p, m.Configs)
	return p, !math.IsInf(p.size, 1)
}
