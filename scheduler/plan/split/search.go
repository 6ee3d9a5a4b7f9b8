// Package split divides a latency objective among the modules of a DAG at least
// cost, given what each module costs as a function of its budget (Cost).
//
// Curves are that cost under the proportional cost model: the least over
// configurations of a hyperbola that ends in a constant (Cheapest has the
// theorem). Steps are it where whole devices are counted. relaxation.go bounds the
// cost of a whole pipeline from below, for any DAG, and Search closes the gap by
// branch and bound. Reassign gives what a split leaves over to modules that save
// by it.
package split

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

const (
	// maxBoxes bounds the branch and bound; what is open by then stays in the
	// lower bound.
	maxBoxes = 5000

	// maxWork bounds the arcs and curves that all relaxations look at: about half
	// a second.
	maxWork = 60_000_000

	// PruneGap is the relative gap at which a box is closed: below
	// plan.OptimalityGap, so that rounding to whole nanoseconds finds room.
	PruneGap = 4e-7
)

// Search searches the splits of the SLO for the least cost: best bound first
// over boxes of budgets, each bounded by the relaxation. A box whose bound is
// not reached is cut in two at a budget where the hull lies below the true
// cost; both halves meet the true cost there, since costs fall with the budget.
type Search struct {
	Costs []Cost
	Scale float64 // a weight is a cost times this

	// Buy is what module i costs under a budget, in scaled weights, and how
	// much of the budget that needs.
	Buy func(i int, budget time.Duration) (cost float64, needs time.Duration, ok bool)

	// Boxes is how many boxes are looked at, at the most; 0 for as many as a
	// proof may need.
	Boxes int

	precision float64 // of the relaxation's prices

	Best  float64         // cost of Found, in scaled weights; +Inf where there is none
	Found []time.Duration // the best split

	p     *plan.Prepared
	slo   float64 // seconds
	boxes []box   // open
	work  int
	lower float64
	tried map[string]bool
}

// box is a part of the search, in seconds.
type box struct {
	low, high []float64
	flow      []float64 // of the box it was cut from, to start from
	bound     float64
}

// NewSearch is an empty search; the caller sets Costs and Buy.
func NewSearch(p *plan.Prepared) *Search {
	return &Search{
		Scale: p.Scale(), p: p, slo: p.Pipeline.SLO.Seconds(),
		lower: math.Inf(1), Best: math.Inf(1), tried: map[string]bool{},
	}
}

// NewProportional searches the splits of least cost under the proportional cost
// model.
func NewProportional(p *plan.Prepared) *Search {
	b := NewSearch(p)
	b.Costs = Costs(proportional(p, b.Scale))
	b.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := Cheapest(p.Modules[i], budget)
		return set.Weight / b.Scale, set.Worst, ok
	}
	return b
}

// Least is the least sum of costs over all splits, as a bound, and a split that is
// near it, nil where there is none; after boxes boxes.
func Least(p *plan.Prepared, costs []Cost, boxes int) (bound float64, budgets []time.Duration) {
	return least(p, costs, boxes, 0)
}

// LeastRough is Least with prices of less precision, in less time: the bound holds,
// since any prices give one, and may be lower.
func LeastRough(p *plan.Prepared, costs []Cost, boxes int) (bound float64, budgets []time.Duration) {
	return least(p, costs, boxes, rough)
}

// rough is the precision of LeastRough.
const rough = 1e-4

func least(p *plan.Prepared, costs []Cost, boxes int, precision float64) (bound float64, budgets []time.Duration) {
	b := NewSearch(p)
	b.precision = precision
	b.Scale, b.Costs, b.Boxes = 1, costs, boxes
	b.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		cost, which := costs[i].At(budget.Seconds())
		return cost, budget, which >= 0 || costs[i].Size() == 0
	}
	bound = b.Run()
	return bound, b.Found
}

// Run searches and returns the lower bound, in weights.
func (b *Search) Run() float64 {
	root := box{low: make([]float64, len(b.Costs)), high: make([]float64, len(b.Costs))}
	for i, f := range b.Costs {
		root.low[i], root.high[i] = f.Fastest(), b.slo
	}
	b.boxes = append(b.boxes, root)
	most := cmp.Or(b.Boxes, maxBoxes)
	for n := 0; len(b.boxes) > 0; n++ {
		if n >= most || b.work > maxWork || b.p.Options.Stopped() {
			break
		}
		if next := b.pop(); next.bound < b.enough() {
			b.examine(next)
		} else {
			b.close(next.bound)
		}
	}
	for _, open := range b.boxes {
		b.close(open.bound)
	}
	// The bound was summed in floating point: take the noise off.
	return math.Min(b.lower, b.Best) * b.Scale * (1 - 1e-12)
}

// RunRoot looks at the root only: a split that is good, without proof.
func (b *Search) RunRoot() {
	root := box{low: make([]float64, len(b.Costs)), high: make([]float64, len(b.Costs))}
	for i, f := range b.Costs {
		root.low[i], root.high[i] = f.Fastest(), b.slo
	}
	b.examine(root)
}

// Restart clears the search; what was found stays.
func (b *Search) Restart() { b.boxes, b.lower, b.work = nil, math.Inf(1), 0 }

func (b *Search) enough() float64 { return b.Best * (1 - PruneGap) }

func (b *Search) close(bound float64) { b.lower = math.Min(b.lower, bound) }

func (b *Search) pop() box {
	at := 0
	for i := range b.boxes {
		if b.boxes[i].bound < b.boxes[at].bound {
			at = i
		}
	}
	next := b.boxes[at]
	b.boxes = slices.Delete(b.boxes, at, at+1)
	return next
}

// examine bounds a box, looks for a plan in it and cuts it.
func (b *Search) examine(x box) {
	if !b.tighten(&x) {
		return // holds no split
	}
	r := newRelaxation(b.p.DAG, b.Costs, b.slo)
	r.precision = b.precision
	r.low, r.high = x.low, x.high
	if x.flow != nil {
		copy(r.flow, x.flow)
	}
	x.bound = math.Max(x.bound, r.solve(b.reference(), b.enough()))
	b.work += r.work
	if x.bound >= b.enough() {
		b.close(x.bound)
		return
	}
	budgets := r.budgets()
	b.Offer(rounded(budgets))
	b.settle(budgets)
	if x.bound >= b.enough() {
		b.close(x.bound)
		return
	}
	b.cut(x, r, budgets)
}

func (b *Search) reference() float64 {
	if !math.IsInf(b.Best, 1) && b.Best > 0 {
		return b.Best
	}
	sum := 0.0
	for _, f := range b.Costs {
		if cost, which := f.At(b.slo); which >= 0 {
			sum += cost
		}
	}
	return sum
}

// tighten lowers what no split of the box can use; false when it holds none.
func (b *Search) tighten(x *box) bool {
	const room = 1e-12 // seconds, for noise
	head, tail := make([]float64, len(x.low)), make([]float64, len(x.low))
	d := b.p.DAG
	for i := range x.low {
		for _, u := range d.Up[i] {
			head[i] = math.Max(head[i], head[u]+x.low[u])
		}
	}
	for i := len(x.low) - 1; i >= 0; i-- {
		for _, v := range d.Down[i] {
			tail[i] = math.Max(tail[i], tail[v]+x.low[v])
		}
		x.high[i] = math.Min(x.high[i], b.slo-head[i]-tail[i]+room)
		if x.low[i] > x.high[i] {
			return false
		}
	}
	return true
}

// cut splits the box at the budget whose true cost is furthest above what the
// bound counts for it.
func (b *Search) cut(x box, r *relaxation, budgets []float64) {
	at, most := -1, 0.0
	prices := r.prices()
	for i, f := range b.Costs {
		cost, _ := f.At(budgets[i])
		gap := cost + prices[i]*budgets[i] - r.value(i, prices[i])
		if _, _, ok := f.Divide(budgets[i], x.low[i], x.high[i]); ok && gap > most {
			at, most = i, gap
		}
	}
	if at < 0 || most <= PruneGap/4*math.Abs(x.bound)/float64(len(b.Costs)) {
		b.close(x.bound)
		return
	}
	below, above, _ := b.Costs[at].Divide(budgets[at], x.low[at], x.high[at])
	left := box{low: slices.Clone(x.low), high: slices.Clone(x.high), flow: r.flow, bound: x.bound}
	right := box{low: slices.Clone(x.low), high: slices.Clone(x.high), flow: r.flow, bound: x.bound}
	left.high[at], right.low[at] = below, above
	b.boxes = append(b.boxes, left, right)
}

// settle takes the configurations that are cheapest under the budgets and
// finds the best budgets for them. With one configuration a module the problem
// is convex and the relaxation solves it.
func (b *Search) settle(budgets []float64) {
	fixed := make([]Cost, len(b.Costs))
	low, high := make([]float64, len(b.Costs)), make([]float64, len(b.Costs))
	key := make([]byte, 0, 2*len(b.Costs))
	for i, f := range b.Costs {
		curves, ok := f.(Curves)
		if !ok {
			return // costs that fall in steps leave no budgets to choose
		}
		_, which := f.At(budgets[i])
		if which >= 0 {
			fixed[i] = curves[which : which+1]
		} else if len(curves) > 0 {
			return
		} else {
			fixed[i] = curves
		}
		key = append(key, byte(which), byte(which>>8))
		low[i], high[i] = fixed[i].Fastest(), b.slo
	}
	x := box{low: low, high: high}
	if b.tried[string(key)] || !b.tighten(&x) {
		return
	}
	b.tried[string(key)] = true
	r := newRelaxation(b.p.DAG, fixed, b.slo)
	r.low, r.high = x.low, x.high
	if r.solve(b.reference(), b.Best) < b.Best {
		b.Offer(rounded(r.budgets()))
	}
}

func rounded(budgets []float64) []time.Duration {
	list := make([]time.Duration, len(budgets))
	for i, s := range budgets {
		list[i] = plan.WholeNanoseconds(s)
	}
	return list
}

// Offer takes a split if it is cheaper than the best one, after giving what
// its paths leave of the SLO to modules that save by it.
func (b *Search) Offer(split []time.Duration) {
	d, slo := b.p.DAG, b.p.Pipeline.SLO
	if d.Longest(split) > slo {
		return
	}
	sum := 0.0
	for i := range split {
		cost, needs, ok := b.Buy(i, split[i]+slo-d.LongestThrough(split, i))
		if !ok {
			return
		}
		split[i] = max(split[i], needs)
		sum += cost
	}
	if sum < b.Best && d.Longest(split) <= slo {
		b.Best, b.Found = sum, slices.Clone(split)
	}
}

// Cheapest is the least cost of serving the module within the budget, under the
// proportional cost model, over all sets of groups that a dispatcher can keep.
//
// Theorem. Among the sound plans of one module with rate T and budget L, one
// with a single configuration is cheapest, at
//
//	min over (b, d, p) with d < L of  p·d / min(b/T, max(g, L - d)) ,
//
// where g = 1/T for requests that come one by one, and else 0.
//
// Proof. Take any sound plan and let T' >= T be its rate with dummy requests.
// Each of its groups releases a batch of b that is due W <= L - d later, and
// the stream brings b requests in no less than b/T'; so T' >= b/(L - d), for
// every configuration in use. The plan costs the sum of f·p·d/b over its
// groups, whose rates f add up to T', hence at least T'·p·d/b for the
// configuration in use whose p·d/b is least, hence at least
// max(T, b/(L - d))·p·d/b. That is what this configuration costs alone. Alone
// it is sound: with one group the processor-demand test is b/T' <= W.
//
// Requests that are counted singly need no batch while none comes: where the window
// is shorter than 1/T every request has a batch of its own, all others of which are
// dummies, and T' = b·T is enough.
//
// The proof uses of soundness only that T' >= b/(L - d). Plans in the papers'
// reading fulfil that as well, since their worst case d + b/w has w <= T';
// so they are not cheaper under the same budget either.
//
// A machine that runs s batches side by side serves s·b/d, so p/s takes the
// place of p. Budgets are whole nanoseconds, and devices are unlimited.
func Cheapest(m *plan.ModuleProblem, budget time.Duration) (plan.Schedule, bool) {
	if m.Rate == 0 {
		return plan.Schedule{}, true
	}
	best, found := plan.Schedule{}, false
	if m.Bursts.Items > 0 {
		return cheapestForBursts(m, budget)
	}
	for _, c := range m.Configs {
		rate := m.Rate
		if plan.Collection(c.Batch, rate) > budget-c.Duration {
			if rate = plan.CollectRate(c, budget); m.Single { // a request and dummies, at the most
				rate = min(rate, float64(c.Batch)*m.Rate)
			}
		}
		if rate < m.Rate {
			continue // the budget leaves no window at all
		}
		machines := rate / c.Throughput()
		if weight := c.Weight * machines; !found || plan.Cheaper(weight, best.Weight) {
			found = true
			t := plan.Allocation{Config: c, Machines: machines, Rate: rate, Collect: rate, Worst: min(budget, plan.PartialWorstCase(c, rate))}
			best = plan.Schedule{Allocations: []plan.Allocation{t}, Dummies: rate - m.Rate, Worst: t.Worst, Weight: weight}
		}
	}
	return best, found
}

// cheapestForBursts is Cheapest for bursts, which are charged for the time that they use: see
// burstCurves.
func cheapestForBursts(m *plan.ModuleProblem, budget time.Duration) (best plan.Schedule, found bool) {
	offer := func(a plan.Allocation, charge float64) {
		if weight := a.Weight * charge; !found || plan.Cheaper(weight, best.Weight) {
			best, found = plan.Schedule{Allocations: []plan.Allocation{a}, Dummies: a.Rate - m.Rate, Worst: a.Worst, Weight: weight}, true
		}
	}
	shaped := plan.ToDuration(m.Bursts.Shaped())
	for _, c := range m.Configs {
		unmixed := func(n int) float64 { latency, _ := m.InBursts(&c, n); return latency }
		if n, fits := m.DevicesForBursts(&c, budget, unmixed); fits {
			charge := c.Interval() * float64(plan.Batches(m.Bursts.Items, c.Batch)) / m.Bursts.Gap
			group := m.BurstGroup(c, n, m.Bursts.Items, plan.ToDuration(unmixed(n)))
			group.Charge = charge
			offer(group, charge)
		}
		if period := min(plan.Collection(c.Batch, m.Rate), budget-c.Duration-shaped); period > 0 {
			rate := max(m.Rate, float64(c.Batch)/period.Seconds())
			machines := rate / c.Throughput()
			offer(plan.Allocation{Config: c, Machines: machines, Rate: rate, Collect: rate, Worst: c.Duration + period + shaped}, machines)
		}
	}
	return best, found
}

// Reassign is the latency reassigner of the Harpagon paper, section III-C: what a
// path leaves of the SLO, because modules answer sooner than their budgets allow
// or because the split left some over, is offered to one module after another. The
// module whose schedule becomes cheapest by it takes it, until none becomes
// cheaper; with once, the first takes all.
//
// The paper gives the gap to a module's residual workload. solve schedules the
// whole module i again here, which includes that case and, like the paper, accepts
// only what lowers the cost.
func Reassign(p *plan.Prepared, sets []plan.Schedule, once bool, solve func(i int, budget time.Duration) (plan.Schedule, bool)) {
	for {
		best, at, saved := plan.Schedule{}, -1, 0.0
		around := p.DAG.Around(plan.Worsts(sets))
		for i := range p.Modules {
			try, ok := solve(i, p.Pipeline.SLO-around[i])
			gain := sets[i].Weight - try.Weight
			if ok && plan.Cheaper(try.Weight, sets[i].Weight) && gain > saved {
				best, at, saved = try, i, gain
			}
		}
		if at < 0 {
			return
		}
		sets[at] = best
		if once {
			return
		}
	}
}
