package plan

import (
	"math"
	"slices"
	"time"
)

const (
	// maxBoxes bounds the branch and bound; what is open by then stays in the
	// lower bound.
	maxBoxes = 5000

	// maxWork bounds the arcs and curves that all relaxations look at: about half
	// a second.
	maxWork = 60_000_000

	// pruneGap is the relative gap at which a box is closed: below
	// optimalityGap, so that rounding to whole nanoseconds finds room.
	pruneGap = 4e-7
)

// brancher searches the splits of the SLO for the least cost: best bound first
// over boxes of budgets, each bounded by the relaxation. A box whose bound is
// not reached is cut in two at a budget where the hull lies below the true
// cost; both halves meet the true cost there, since costs fall with the budget.
type brancher struct {
	p     *planner
	costs []trade
	scale float64
	slo   float64

	// buy is what module i costs under a budget, in scaled weights, and how
	// much of the budget that needs.
	buy func(i int, budget time.Duration) (cost float64, needs time.Duration, ok bool)

	boxes []box // open
	work  int
	lower float64
	best  float64 // cost of found, in scaled weights
	found []time.Duration
	tried map[string]bool
}

// box is a part of the search, in seconds.
type box struct {
	low, high []float64
	flow      []float64 // of the box it was cut from, to start from
	bound     float64
}

func newBrancher(p *planner) *brancher {
	costs, scale := p.frontiers()
	b := &brancher{
		p: p, costs: trades(costs), scale: scale, slo: p.pipe.SLO.Seconds(),
		lower: math.Inf(1), best: math.Inf(1), tried: map[string]bool{},
	}
	b.buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := p.modules[i].single(budget)
		return set.weight / scale, set.worst, ok
	}
	return b
}

// run searches and returns the lower bound, in weights.
func (b *brancher) run() float64 {
	root := box{low: make([]float64, len(b.costs)), high: make([]float64, len(b.costs))}
	for i, f := range b.costs {
		root.low[i], root.high[i] = f.fastest(), b.slo
	}
	b.boxes = append(b.boxes, root)
	for n := 0; len(b.boxes) > 0; n++ {
		if n >= maxBoxes || b.work > maxWork || b.p.options.halted() {
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
	return math.Min(b.lower, b.best) * b.scale * (1 - 1e-12)
}

// once looks at the root only: a split that is good, without proof.
func (b *brancher) once() {
	root := box{low: make([]float64, len(b.costs)), high: make([]float64, len(b.costs))}
	for i, f := range b.costs {
		root.low[i], root.high[i] = f.fastest(), b.slo
	}
	b.examine(root)
}

// restart clears the search; what was found stays.
func (b *brancher) restart() { b.boxes, b.lower, b.work = nil, math.Inf(1), 0 }

func (b *brancher) enough() float64 { return b.best * (1 - pruneGap) }

func (b *brancher) close(bound float64) { b.lower = math.Min(b.lower, bound) }

func (b *brancher) pop() box {
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
func (b *brancher) examine(x box) {
	if !b.tighten(&x) {
		return // holds no split
	}
	r := newRelaxation(b.p.dag, b.costs, b.slo)
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
	b.offer(rounded(budgets))
	b.settle(budgets)
	if x.bound >= b.enough() {
		b.close(x.bound)
		return
	}
	b.cut(x, r, budgets)
}

func (b *brancher) reference() float64 {
	if !math.IsInf(b.best, 1) && b.best > 0 {
		return b.best
	}
	sum := 0.0
	for _, f := range b.costs {
		if cost, which := f.at(b.slo); which >= 0 {
			sum += cost
		}
	}
	return sum
}

// tighten lowers what no split of the box can use; false when it holds none.
func (b *brancher) tighten(x *box) bool {
	const room = 1e-12 // seconds, for noise
	head, tail := make([]float64, len(x.low)), make([]float64, len(x.low))
	d := b.p.dag
	for i := range x.low {
		for _, u := range d.up[i] {
			head[i] = math.Max(head[i], head[u]+x.low[u])
		}
	}
	for i := len(x.low) - 1; i >= 0; i-- {
		for _, v := range d.down[i] {
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
func (b *brancher) cut(x box, r *relaxation, budgets []float64) {
	at, most := -1, 0.0
	prices := r.prices()
	for i, f := range b.costs {
		cost, _ := f.at(budgets[i])
		gap := cost + prices[i]*budgets[i] - r.value(i, prices[i])
		if _, _, ok := f.divide(budgets[i], x.low[i], x.high[i]); ok && gap > most {
			at, most = i, gap
		}
	}
	if at < 0 || most <= pruneGap/4*math.Abs(x.bound)/float64(len(b.costs)) {
		b.close(x.bound)
		return
	}
	below, above, _ := b.costs[at].divide(budgets[at], x.low[at], x.high[at])
	left := box{low: slices.Clone(x.low), high: slices.Clone(x.high), flow: r.flow, bound: x.bound}
	right := box{low: slices.Clone(x.low), high: slices.Clone(x.high), flow: r.flow, bound: x.bound}
	left.high[at], right.low[at] = below, above
	b.boxes = append(b.boxes, left, right)
}

// settle takes the configurations that are cheapest under the budgets and
// finds the best budgets for them. With one configuration a module the problem
// is convex and the relaxation solves it.
func (b *brancher) settle(budgets []float64) {
	fixed := make([]trade, len(b.costs))
	low, high := make([]float64, len(b.costs)), make([]float64, len(b.costs))
	key := make([]byte, 0, 2*len(b.costs))
	for i, f := range b.costs {
		curves, ok := f.(frontier)
		if !ok {
			return // the steps of a stair leave no budgets to choose
		}
		_, which := f.at(budgets[i])
		if which >= 0 {
			fixed[i] = curves[which : which+1]
		} else if len(curves) > 0 {
			return
		} else {
			fixed[i] = curves
		}
		key = append(key, byte(which), byte(which>>8))
		low[i], high[i] = fixed[i].fastest(), b.slo
	}
	x := box{low: low, high: high}
	if b.tried[string(key)] || !b.tighten(&x) {
		return
	}
	b.tried[string(key)] = true
	r := newRelaxation(b.p.dag, fixed, b.slo)
	r.low, r.high = x.low, x.high
	if r.solve(b.reference(), b.best) < b.best {
		b.offer(rounded(r.budgets()))
	}
}

func rounded(budgets []float64) []time.Duration {
	list := make([]time.Duration, len(budgets))
	for i, s := range budgets {
		list[i] = wholeNanoseconds(s)
	}
	return list
}

// offer takes a split if it is cheaper than the best one, after giving what
// its paths leave of the SLO to modules that save by it.
func (b *brancher) offer(split []time.Duration) {
	d, slo := b.p.dag, b.p.pipe.SLO
	if d.longest(split) > slo {
		return
	}
	sum := 0.0
	for i := range split {
		cost, needs, ok := b.buy(i, split[i]+slo-d.longestThrough(split, i))
		if !ok {
			return
		}
		split[i] = max(split[i], needs)
		sum += cost
	}
	if sum < b.best && d.longest(split) <= slo {
		b.best, b.found = sum, slices.Clone(split)
	}
}
