package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// division is a rule by which a module is divided between devices of its own
// and a shared one.
type division int

const (
	fullDevices   division = iota // full devices of the best value, the residual rate is shared
	oneDeviceLess                 // one full device less than that
	dedicated                     // nothing is shared: cost model whole
	divisions
)

// sharedKind is a kind of hardware whose devices may be shared.
type sharedKind struct {
	index    int // in packer.kinds
	hardware string
	price    float64
	weight   float64
	memory   int64 // bytes; 0 when unknown
	count    int   // 0 without limit
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

// machines are the devices of its own.
func (p *assignment) machines() float64 {
	n := 0.0
	for i := range p.dedicated {
		n += p.dedicated[i].Machines
	}
	return n
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

// shortestOf is the shortest duration, 0 where there is none.
func shortestOf(list []candidate) time.Duration {
	shortest := time.Duration(0)
	for _, c := range list {
		if shortest == 0 || c.Duration < shortest {
			shortest = c.Duration
		}
	}
	return shortest
}
