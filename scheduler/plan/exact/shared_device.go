package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
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
	dedicated        []plan.Allocation  // on devices of its own
	residual         float64            // requests per second that are left to a shared device
	items            int                // of each burst that are; 0 where requests do not come in bursts
	gap              time.Duration      // between two bursts, or two requests that are distinguished
	single           bool               // requests come one by one, of a pipeline with branches
	branch           []demand.Condition // under which they come here
	offset           time.Duration      // from the arrival of a request to its virtual arrival here
	rest             rest               // of the stream, that devices of its own take
	choices          [][]candidate      // how the residual rate may run, by kind
	size             float64            // weight of what the residual rate uses at the least
}

// rest is what devices of a module's own leave to its group on a shared device. Both
// collect from one stream of T requests per second; let the own devices receive f_o in
// batches every P_o, and the shared group f = T - f_o every P. Without its floors the
// processor-demand test (package demand) requires
//
//	f·P <= T·W  and  f·(W - P) + f_o·(W_o - P_o) >= 0 ,
//
// since own windows W_o = L - d_o are no shorter than P_o. So what the own devices wait
// less than they may lets the shared group collect for longer than its window: batches
// that are full, and fewer. All windows are longer by the margin for single requests, which
// keeps batches of a shared device apart only where they are full (see plan.SingleMargin).
type rest struct {
	margin time.Duration
	slack  time.Duration // f_o·(W_o - P_o)/f
	times  float64       // T/f; 0 where there are no own devices
	one    time.Duration // between two requests: without own devices batches need not be closed more often
}

// wholeStream is what no devices of its own leave.
func wholeStream(m *plan.ModuleProblem) rest { return rest{one: m.WholeGap()} }

// restOf is what devices of a module's own leave, of a stream of rate requests per second.
func restOf(rate float64, own *plan.Allocation, budget time.Duration) rest {
	left := rate - own.Rate
	if left <= 0 {
		return rest{}
	}
	margin := plan.SingleMargin(rate)
	slack := own.Rate / left * float64(budget-margin-own.Duration-own.Period)
	return rest{margin: margin, slack: time.Duration(math.Min(slack, math.MaxInt64/4)), times: rate / left}
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
	window -= r.margin
	return min(plan.SaturatingAdd(window, r.slack), time.Duration(math.Min(float64(window)*r.times, math.MaxInt64/2)))
}

// window is the shortest with batches every period.
func (r rest) window(period time.Duration) time.Duration {
	switch {
	case r.times == 0 && period <= r.one:
		return 1
	case r.times == 0:
		return period
	}
	return r.margin + max(period-r.slack, time.Duration(math.Ceil(float64(period)/r.times)), 1)
}

// candidate is a configuration for a residual rate.
type candidate struct {
	*plan.Config
	filling time.Duration // collected for longer, a batch would hold more than it can
	burst   *burst        // where the batches of a burst count as one
	spread  time.Duration // where they are collected from a fluid: how much longer items wait for that
}

// burst is what the batches that run a part of each burst one after the other count as: one
// batch, which takes as long as all of them and is collected from burst to burst.
type burst struct {
	one    *plan.Config // of a single batch
	atOnce int
}

// inBursts is a configuration that runs so many items of each burst.
func inBursts(c *plan.Config, items int, gap time.Duration) candidate {
	n, all := plan.Batches(items, c.Batch), *c
	all.Duration *= time.Duration(n)
	return candidate{Config: &all, filling: gap, burst: &burst{c, n}}
}

// blocks is how long a batch holds up another one.
func (c *candidate) blocks() time.Duration {
	if c.burst != nil {
		return c.burst.one.Duration
	}
	return c.Duration
}

// option is one way to run the residual rate of a module on a shared device.
type option struct {
	*plan.Config
	period   time.Duration
	window   time.Duration // that requests wait for their batch at the most
	deadline time.Duration
	use      float64 // share of a device
	burst    *burst
	spread   time.Duration
}

// blocks is how long a batch of it holds up another one.
func (w *option) blocks() time.Duration {
	return (&candidate{Config: w.Config, burst: w.burst}).blocks()
}

// task is what the option demands of its device.
func (w *option) task() demand.Task {
	t := demand.Task{Duration: w.blocks().Seconds(), Period: w.period.Seconds(), Deadline: w.deadline.Seconds()}
	if w.burst != nil {
		t.AtOnce = w.burst.atOnce
	}
	return t
}

// bin is a shared device with what runs on it.
type bin struct {
	kind    sharedKind
	parts   []int
	options []option         // of the parts
	use     float64          // by the parts
	held    *plan.HeldDevice // with what others run on it; nil for one that is opened
	inPhase bool             // in time because it is known when batches come (plan.Device)
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
		if c := &p.choices[kind][i]; c.blocks() <= longest || c.burst != nil {
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
	if c.burst != nil {
		deadline = p.budget - 1 // its batches wait for no others of their module
	}
	window := p.budget - deadline - c.spread
	if window <= 0 || c.Duration > deadline {
		return option{}, false
	}
	rest := p.restFor(c)
	period, wait := c.filling, rest.window(c.filling)
	switch {
	case wait > window && rest.times > 0:
		return option{}, false
	case wait > window:
		period, wait = rest.period(window), window
		if window < period {
			wait = 1 // for nobody
		}
	}
	wait += c.spread
	return option{Config: c.Config, period: period, window: wait, deadline: p.budget - wait, use: float64(c.Duration) / float64(period), burst: c.burst, spread: c.spread}, true
}

// restFor is what devices of the module's own leave to a candidate.
func (p *assignment) restFor(c *candidate) rest {
	if c.spread > 0 {
		return rest{}
	}
	return p.rest
}

// longest is how long requests are collected for a batch of c when they wait for it no longer
// than a window.
func (p *assignment) longest(c *candidate, window time.Duration) time.Duration {
	return min(c.filling, p.restFor(c).period(window-c.spread))
}

// period is how long requests are collected for a batch of c when they wait for it no
// longer than a window, as far as that does not depend on the budget: what own devices
// leave is not counted. 0 where there is no window.
func (p *assignment) period(c *candidate, window time.Duration) time.Duration {
	if window -= c.spread; window <= 0 {
		return 0
	}
	return min(c.filling, max(window, p.restFor(c).one))
}

// phased reports whether a test of the device may rest on when its batches come.
func (p *assignment) phased() bool { return p.items > 0 || p.single }

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

// shortestOf is the shortest duration of a batch, 0 where there is none.
func shortestOf(list []candidate) time.Duration {
	shortest := time.Duration(0)
	for i := range list {
		if d := list[i].blocks(); shortest == 0 || d < shortest {
			shortest = d
		}
	}
	return shortest
}

// Deadlines that arrange tries.
const (
	deadlineStep  = 1.2 // from one deadline to the next
	mostDeadlines = 48
)

// arrange finds how parts can share a device of a kind so that they use least
// of it. All wait up to the same deadline where that is not longer than what
// their batches leave of their budgets; with equal deadlines the device serves
// batches in the order in which they are closed. Tried are deadlines from the
// sum of the shortest durations, where every part may have to wait for one
// batch of each other, up to the shortest budget (see dues). Under a deadline each
// part takes the configuration that uses least. Where their batches are too long to
// wait for each other, the choice is a knapsack of durations, and one part after the
// other takes shorter batches (see shorten); where one batch of each ends sooner or later
// than the deadline, that time is tried as one, too.
//
// The first deadlines do not depend on rates and budgets, so that more time or less load
// has the same to choose from and more. held, where it is not nil, is what others
// run on the device; the deadlines that matter beside it are tried, too.
func arrange(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment) (best bin, ok bool) {
	low, high, able := between(h, members, parts)
	if !able {
		return best, false
	}
	trial, spare := make([]option, 0, len(members)), make([]option, 0, len(members))
	bursts := slices.ContainsFunc(members, func(i int) bool { return parts[i].phased() })
	try := func(due, longest time.Duration) (takes time.Duration) {
		b := bin{kind: h, held: held, parts: members, options: trial[:0]}
		if !b.all(parts, due, longest) {
			return 0
		}
		takes = b.takes(math.MaxInt64)
		for !ok || b.use < best.use { // shorter batches use no less
			if (bursts || b.takes(due) <= due) && b.fits() && b.sound(parts) {
				best, ok = b, true
				trial, spare = spare, b.options
				break
			}
			if !b.shorten(parts, due) {
				break
			}
		}
		return takes
	}
	if held != nil {
		for _, d := range criticalDues(h, held, members, parts, low, high) {
			try(d.at, d.longest)
		}
	}
	for _, due := range dues(h, held, members, parts, low, high) {
		if ok && best.use <= leastUse(h, members, parts, due) {
			break // nor do later ones
		}
		if takes := try(due, due); takes > 0 && takes != due && !bursts { // where every part waits for these batches
			try(takes, takes)
		}
	}
	return best, ok
}

// between is what deadlines lie between: the sum of the shortest durations, and the
// shortest budget; false where there is nothing between them.
func between(h sharedKind, members []int, parts []assignment) (low, high time.Duration, ok bool) {
	high = math.MaxInt64
	bursts, longest, one := false, time.Duration(0), time.Duration(0)
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		if shortest == 0 {
			return 0, 0, false
		}
		low, high = plan.SaturatingAdd(low, shortest), min(high, parts[i].budget)
		switch {
		case !parts[i].phased():
			longest = max(longest, shortest)
		case parts[i].single && (one == 0 || shortest < one):
			one = shortest
		}
		bursts = bursts || parts[i].phased()
	}
	if longest == 0 {
		longest = one
	}
	if bursts { // who is due sooner waits for one batch of a burst at the most, and not for all others
		low = longest
	}
	return low, high, low < high
}

// dues are the deadlines that are tried: all sums of durations where these are few, as for
// one or two parts on a device of their own, and otherwise a grid.
func dues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []time.Duration) {
	sums := 1
	for _, i := range members {
		if parts[i].phased() { // whose deadline is given, and which others need not wait for
			return deadlines(max(1, low), high)
		}
		if sums *= len(parts[i].choices[h.index]); sums > mostDeadlines || held != nil {
			return deadlines(low, high)
		}
	}
	list = append(list, 0)
	for _, i := range members {
		var longer []time.Duration
		for _, before := range list {
			for _, c := range parts[i].choices[h.index] {
				if sum := before + c.blocks(); sum < high {
					longer = append(longer, sum)
				}
			}
		}
		list = longer
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// deadlines is the grid between two.
func deadlines(low, high time.Duration) (list []time.Duration) {
	for at := float64(low); len(list) < mostDeadlines && at < float64(high); at *= deadlineStep {
		list = append(list, time.Duration(math.Ceil(at)))
	}
	return list
}

// leastUse is what parts use of a device at the least when all wait up to a
// deadline.
func leastUse(h sharedKind, members []int, parts []assignment, due time.Duration) float64 {
	sum := 0.0
	for _, i := range members {
		least := math.Inf(1)
		for k := range parts[i].choices[h.index] {
			c := &parts[i].choices[h.index][k]
			if period := parts[i].longest(c, parts[i].budget-due); period > 0 {
				least = math.Min(least, float64(c.Duration)/float64(period))
			}
		}
		sum += least
	}
	return sum
}

// all chooses an option for every part, with batches no longer than that.
func (b *bin) all(parts []assignment, deadline, longest time.Duration) bool {
	for _, i := range b.parts {
		w, ok := parts[i].option(b.kind.index, deadline, longest)
		if !ok || b.total()+w.use > 1+plan.RateTolerance && !b.branches(parts) {
			return false
		}
		b.options = append(b.options, w)
		b.use += w.use
	}
	return b.able(parts)
}

// branches reports whether a request may leave out some part.
func (b *bin) branches(parts []assignment) bool {
	return slices.ContainsFunc(b.parts, func(i int) bool { return len(parts[i].branch) > 0 })
}

// able reports whether the device has time for its parts.
func (b *bin) able(parts []assignment) bool {
	return b.total() <= 1+plan.RateTolerance || b.held == nil && b.busy(parts) <= 1+plan.RateTolerance
}

// busy is the share of its time that parts take of which it is known when their batches come: of
// when and else of one condition, the larger.
func (b *bin) busy(parts []assignment) float64 {
	if !b.branches(parts) || !b.playable(parts) {
		return b.total()
	}
	return demand.Together(b.phased(parts), func(t demand.Phased) float64 { return t.Use() })
}

// fits reports whether the device's memory holds all that runs on it.
func (b *bin) fits() bool {
	memory := int64(0)
	if b.held != nil {
		memory = b.held.Memory
	}
	for i := range b.options {
		memory += b.options[i].Memory
	}
	return b.kind.memory == 0 || memory <= b.kind.memory
}

// takes is how long one batch of each part takes, of those that must be done by a time.
func (b *bin) takes(by time.Duration) (sum time.Duration) {
	for i := range b.options {
		if w := &b.options[i]; w.deadline <= by {
			sum += w.Duration
		}
	}
	return sum
}

// shorten gives one part shorter batches: the one whose share of the device grows least for
// the time that others wait less; false where none can.
func (b *bin) shorten(parts []assignment, due time.Duration) bool {
	least, at, other := math.Inf(1), -1, option{}
	for k, i := range b.parts {
		is := &b.options[k]
		for n := range parts[i].choices[b.kind.index] {
			c := &parts[i].choices[b.kind.index][n]
			if c.blocks() >= is.blocks() {
				continue
			}
			if w, ok := parts[i].run(c, due); ok {
				if grows := (w.use - is.use) / float64(is.blocks()-w.blocks()); grows < least {
					least, at, other = grows, k, w
				}
			}
		}
	}
	if at < 0 {
		return false
	}
	b.use += other.use - b.options[at].use
	b.options[at] = other
	return b.able(parts)
}

func (b *bin) sound(parts []assignment) bool {
	var buffer [16]demand.Task
	tasks := buffer[:0]
	if b.held != nil {
		tasks = append(tasks, b.held.Demand()...)
	}
	for i := range b.options {
		tasks = append(tasks, b.options[i].task())
	}
	if b.inPhase = false; demand.NonPreemptive(tasks).Sound {
		return true
	}
	b.inPhase = b.held == nil && b.playable(parts)
	return b.inPhase && demand.InPhase(b.phased(parts)).Sound
}

// playable reports whether it is known when each part's batches come: all are of one pipeline
// and come with each of its requests, which has bursts, or with those that take a branch.
func (b *bin) playable(parts []assignment) bool {
	gap := time.Duration(0)
	for _, i := range b.parts {
		if parts[i].pipeline != parts[b.parts[0]].pipeline {
			return false
		}
		gap = max(gap, parts[i].gap)
	}
	return gap > 0 && !slices.ContainsFunc(b.options, func(w option) bool { return w.spread > 0 || w.period < gap || w.period > gap+1 })
}

// phased are the tasks of the device with their offsets.
func (b *bin) phased(parts []assignment) (list []demand.Phased) {
	for k := range b.options {
		w := &b.options[k]
		list = append(list, demand.Phased{Task: w.task(), Offset: (parts[b.parts[k]].offset + w.window).Seconds(), Branch: parts[b.parts[k]].branch})
	}
	return list
}

// waiting is a deadline that parts may wait up to, and the longest batch that they may
// have under it.
type waiting struct {
	at, longest time.Duration
}

// criticalDues are the critical deadlines of parts on a device that others use: for
// their shortest batches, and for one of them in each of its other configurations.
func criticalDues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []waiting) {
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		for _, c := range parts[i].choices[h.index] {
			takes := low - shortest + c.Duration
			for _, seconds := range demand.Critical(held.Demand(), takes.Seconds(), high.Seconds()) {
				if at := plan.ToDuration(seconds); at < high {
					list = append(list, waiting{at, max(c.Duration, shortest)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return int(a.at - b.at) })
	return slices.Compact(list)
}
