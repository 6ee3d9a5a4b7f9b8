package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/bound"
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
	held       []bin        // devices of others that have room
	withMargin bool         // leave a margin for requests that are counted singly; see margin
	rejected   bool         // single requests do not keep some packing that was looked at
	unbounded  bool         // no bound is asked for
	known      *bound.Found // the bound, once it was asked for

	steps [][]split.Steps // see ownSteps
	work  int             // see mostWork

	// Under the budgets that are looked at:
	divided      []divided              // by module of all pipelines and rule
	arrangements map[string]arrangement // of parts, by what is arranged
	key          []byte                 // of the last one looked up
}

// sharedKind is a kind of hardware whose devices may be shared.
type sharedKind struct {
	index    int // in packer.kinds
	hardware string
	price    float64
	weight   float64
	memory   int64 // bytes; 0 when unknown
	count    int   // 0 without limit
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

// assignment is what one module runs.
type assignment struct {
	pipeline, module int
	by               division
	budget           time.Duration
	dedicated        []plan.Allocation // on devices of its own
	residual         float64           // requests per second that are left to a shared device
	rest             rest              // of the stream, that devices of its own take
	choices          [][]candidate     // how the residual rate may run, by kind
	size             float64           // weight of what the residual rate uses at the least

	// Where the packer leaves a margin and gives the module devices of its own, too: by how
	// much the window of a batch that is not full is longer than its period.
	margin time.Duration
}

// rest is what devices of a module's own leave to its group on a shared device. Both
// collect from one stream of T requests per second; let the own devices receive f_o in
// batches every P_o, and the shared group f = T - f_o every P. Without its floors the
// processor-demand test (package demand) asks for
//
//	f·P <= T·W  and  f·(W - P) + f_o·(W_o - P_o) >= 0 ,
//
// since own windows W_o = L - d_o are no shorter than P_o. So what the own devices wait
// less than they may lets the shared group collect for longer than its window: batches
// that are full, and fewer.
type rest struct {
	slack time.Duration // f_o·(W_o - P_o)/f
	times float64       // T/f; 0 where there are no own devices
	one   time.Duration // between two requests: without own devices batches need not be closed more often
}

// wholeStream is what no devices of its own leave.
func wholeStream(m *plan.ModuleProblem) rest { return rest{one: m.WholeGap()} }

// restOf is what devices of a module's own leave, of a stream of rate requests per second.
func restOf(rate float64, own *plan.Allocation, budget time.Duration) rest {
	left := rate - own.Rate
	if left <= 0 {
		return rest{}
	}
	slack := own.Rate / left * float64(budget-own.Duration-own.Period)
	return rest{slack: time.Duration(math.Min(slack, math.MaxInt64/4)), times: rate / left}
}

// period is the longest between two batches whose requests wait no longer than window;
// 0 or less where there is none.
func (r rest) period(window time.Duration) time.Duration {
	switch {
	case r.times == 0 && window > 0:
		return max(window, r.one)
	case r.times == 0:
		return 0
	}
	return min(plan.Saturate(window, r.slack), time.Duration(math.Min(float64(window)*r.times, math.MaxInt64/2)))
}

// window is the shortest with batches every period.
func (r rest) window(period time.Duration) time.Duration {
	switch {
	case r.times == 0 && period <= r.one:
		return 1
	case r.times == 0:
		return period
	}
	return max(period-r.slack, time.Duration(math.Ceil(float64(period)/r.times)), 1)
}

// candidate is a configuration for a residual rate.
type candidate struct {
	*plan.Config
	filling time.Duration // collected for longer, a batch would hold more than it can
}

// option is one way to run the residual rate of a module on a shared device.
type option struct {
	*plan.Config
	period   time.Duration
	window   time.Duration // that requests wait for their batch at the most
	deadline time.Duration
	use      float64 // share of a device
}

// bin is a shared device with what runs on it.
type bin struct {
	kind    sharedKind
	parts   []int
	options []option         // of the parts
	use     float64          // by the parts
	held    *plan.HeldDevice // with what others run on it; nil for one that is opened
}

// total is how much of the device is used, by others too.
func (b *bin) total() float64 {
	if b.held == nil {
		return b.use
	}
	return b.use + b.held.Share
}

// cost is what the packing pays for the device, as a weight: all of one that it
// opens, and of one that others use its part in proportion to the time used.
func (b *bin) cost() float64 {
	if b.held == nil {
		return b.kind.weight
	}
	return b.kind.weight * b.use / b.total()
}

// option is how the module uses least of a device of a kind when its batches must
// wait up to deadline for those of others and take no longer than longest; false
// when it cannot.
func (p *assignment) option(kind int, deadline, longest time.Duration) (best option, ok bool) {
	for i := range p.choices[kind] {
		if c := &p.choices[kind][i]; c.Duration <= longest {
			if w, can := p.run(c, deadline); can && (!ok || w.use < best.use) {
				best, ok = w, true
			}
		}
	}
	return best, ok && best.use <= 1+plan.RateTolerance
}

// run is a configuration as an option, when its batches wait up to deadline for those
// of others; false when it cannot.
func (p *assignment) run(c *candidate, deadline time.Duration) (option, bool) {
	window := p.budget - deadline
	if window <= 0 || c.Duration > deadline {
		return option{}, false
	}
	period, wait := c.filling, p.rest.window(c.filling)
	if wait > window {
		period, wait = p.rest.period(window-p.margin), window
		if p.rest.times == 0 && window < period {
			wait = 1 // for nobody
		}
	}
	if period <= 0 {
		return option{}, false
	}
	return option{Config: c.Config, period: period, window: wait, deadline: p.budget - wait, use: float64(c.Duration) / float64(period)}, true
}

// period is how long requests are collected for a batch of c when they wait for it no
// longer than a window, as far as that does not depend on the budget: what own devices
// leave is not counted. 0 where there is no window.
func (p *assignment) period(c *candidate, window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	return min(c.filling, max(window, p.rest.one))
}

// owns is the weight of devices of the module's own.
func (p *assignment) owns() float64 {
	weight := 0.0
	for i := range p.dedicated {
		weight += p.dedicated[i].Weight * p.dedicated[i].Charged()
	}
	return weight
}

// uses is that, and what the residual rate uses of a shared device at the least.
func (p *assignment) uses() float64 {
	if p.residual == 0 {
		return p.owns()
	}
	return p.owns() + p.size
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

// filling is how long requests may be collected before a batch would hold more
// than it can.
func filling(rate float64, c *plan.Config) time.Duration {
	full := plan.Collection(c.Batch, rate)
	if rate*full.Seconds() > float64(c.Batch)*(1+plan.RateTolerance) {
		full-- // collection rounds up
	}
	return max(1, full)
}

// division is a rule by which a module is divided between devices of its own
// and a shared one.
type division int

const (
	fullDevices   division = iota // full devices of the best value, the residual rate is shared
	oneDeviceLess                 // one full device less than that
	dedicated                     // nothing is shared: cost model whole
	divisions
)

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
