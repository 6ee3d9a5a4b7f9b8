package split

import (
	"cmp"
	"math"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// relaxation bounds the cost of a pipeline from below, over budgets L_i with
// low_i <= L_i <= high_i whose sums along every path keep the SLO.
//
// Let every path carry a price per second of latency, and let phi_i be the sum
// of the prices of the paths through module i: a flow of some amount F from the
// sources of the DAG to its sinks. For budgets that keep the SLO the sum of
// phi_i·L_i is at most F·SLO. So for every flow, whether it is the best or not,
//
//	sum over i of  min over L of (cost_i(L) + phi_i·L)  -  F·SLO
//
// is a lower bound (weak Lagrangian duality). The best flow makes it the cost
// of the problem in which every cost is replaced by its convex hull over
// [low, high]; where that touches the true cost, the bound is the optimum.
//
// The bound is concave in the flow, so the best one is a flow of least convex
// cost. It is found by capacity scaling (Ahuja, Magnanti, Orlin, Network
// Flows, 1993, section 14.5): cycles that gain are sent delta until there are
// none, then delta is halved. The cycles' labels, distances by Bellman and
// Ford, are points in time at which modules may begin and end, and so give the budgets that
// belong to the bound.
//
// Modules in a row, with nothing else between them, carry the same flow: they
// are one arc, whose value is the sum of theirs.
type relaxation struct {
	costs     []Cost
	low, high []float64
	hulls     []Steps // of costs in steps, between low and high; see begin
	slo       float64
	rows      [][]int // modules of an arc, first to last
	delta     float64 // of the last refresh
	precision float64 // of prices, in the first of them; 0 for 1e-8
	work      int     // arcs and curves looked at

	arcs     []arc
	flow     []float64  // by arc
	forward  []float64  // by arc: least gain of one more delta, per unit
	backward []float64  // by arc: least gain of one delta less, per unit
	label    []float64  // by node
	pred     []pathStep // by node
	seen     []int      // by node; see loop
}

// arc joins two nodes: row i has node 2+2i where it begins and 3+2i where it
// ends; all sources begin after node 0, all sinks end before node 1.
type arc struct {
	from, to int
	row      int // or plain, or home
}

const (
	plain = -1 // one row follows another
	home  = -2 // from the end to the beginning: carries F
)

type pathStep struct {
	arc  int // -1 for none
	back bool
}

func newRelaxation(d *plan.DAG, costs []Cost, slo float64) *relaxation {
	r := &relaxation{costs: costs, hulls: make([]Steps, len(costs)), slo: slo, rows: d.Rows}
	at := make([]int, len(costs)) // row of a module
	for k, row := range r.rows {
		for _, i := range row {
			at[i] = k
		}
	}
	for k, row := range r.rows {
		first, last := row[0], row[len(row)-1]
		if len(d.Up[first]) == 0 {
			r.arcs = append(r.arcs, arc{0, 2 + 2*k, plain})
		}
		r.arcs = append(r.arcs, arc{2 + 2*k, 3 + 2*k, k})
		for _, v := range d.Down[last] {
			r.arcs = append(r.arcs, arc{3 + 2*k, 2 + 2*at[v], plain})
		}
		if len(d.Down[last]) == 0 {
			r.arcs = append(r.arcs, arc{3 + 2*k, 1, plain})
		}
	}
	r.arcs = append(r.arcs, arc{1, 0, home})
	n := len(r.arcs)
	r.flow, r.forward, r.backward = make([]float64, n), make([]float64, n), make([]float64, n)
	r.label, r.pred, r.seen = make([]float64, 2+2*len(r.rows)), make([]pathStep, 2+2*len(r.rows)), make([]int, 2+2*len(r.rows))
	return r
}

// solve maximises the bound from the flow as it stands. reference is a cost of
// the right size, for the first delta. It stops early once the bound is above
// enough.
func (r *relaxation) solve(reference, enough float64) float64 {
	r.begin()
	const most = 200 // doublings: an SLO without any slack has no finite price
	start := math.Max(reference, 1e-100) / r.slo
	delta := math.Exp2(math.Ceil(math.Log2(start)))
	r.refresh(delta)
	for range most {
		if !r.improve(delta) || r.bound() > enough {
			break
		}
		delta *= 2
		r.refresh(delta)
	}
	last := cmp.Or(r.precision, 1e-8) * start / float64(len(r.costs))
	for ; delta > last; delta /= 2 {
		r.refresh(delta)
		for range 20 * len(r.arcs) {
			if !r.improve(delta) {
				break
			}
		}
		if r.bound() > enough {
			break
		}
	}
	return r.bound()
}

// begin keeps of costs in steps what may be the least one between low and high at some price:
// many prices are tried.
func (r *relaxation) begin() {
	for i, c := range r.costs {
		if s, ok := c.(Steps); ok && len(s) > 0 {
			r.hulls[i] = s.hull(r.low[i], r.high[i], r.hulls[i])
		}
	}
}

// bound is valid for any flow.
func (r *relaxation) bound() float64 {
	sum := 0.0
	for k, a := range r.arcs {
		switch {
		case a.row >= 0:
			for _, i := range r.rows[a.row] {
				sum += r.value(i, r.flow[k])
			}
		case a.row == home:
			sum -= r.flow[k] * r.slo
		}
	}
	return sum
}

func (r *relaxation) value(i int, price float64) float64 {
	value, _ := r.least(i, price)
	return value
}

func (r *relaxation) budget(i int, price float64) float64 {
	r.work += 4 * r.costs[i].Size() // a curve costs about as much as four arcs
	_, budget := r.least(i, price)
	return budget
}

func (r *relaxation) least(i int, price float64) (value, budget float64) {
	if hull := r.hulls[i]; len(hull) > 0 {
		return hull.cheapest(price, r.low[i])
	}
	return r.costs[i].Least(price, r.low[i], r.high[i])
}

// budgets reads the labels of the last search that found no cycle. Within a row
// the modules take what the flow's price gives them, and what is between the
// prices just above and just below goes to the first that can use it.
func (r *relaxation) budgets() []float64 {
	list := make([]float64, len(r.costs))
	for k, a := range r.arcs {
		if a.row < 0 {
			continue
		}
		row := r.rows[a.row]
		rest := r.label[a.to] - r.label[a.from]
		for _, i := range row {
			list[i] = r.low[i]
			if len(row) > 1 {
				list[i] = r.budget(i, r.flow[k]+r.delta)
			}
			rest -= list[i]
		}
		for _, i := range row {
			more := r.high[i]
			if len(row) > 1 {
				more = r.budget(i, math.Max(0, r.flow[k]-r.delta))
			}
			more = math.Max(0, math.Min(rest, more-list[i]))
			list[i] += more
			rest -= more
		}
	}
	return list
}

// prices are the flows through the modules.
func (r *relaxation) prices() []float64 {
	list := make([]float64, len(r.costs))
	for k, a := range r.arcs {
		if a.row >= 0 {
			for _, i := range r.rows[a.row] {
				list[i] = r.flow[k]
			}
		}
	}
	return list
}

func (r *relaxation) refresh(delta float64) {
	r.delta = delta
	for k := range r.arcs {
		r.gains(k, delta)
	}
}

func (r *relaxation) gains(k int, delta float64) {
	r.forward[k], r.backward[k] = 0, math.Inf(-1)
	if r.flow[k] >= delta {
		r.backward[k] = 0
	}
	switch a := r.arcs[k]; {
	case a.row == home:
		r.forward[k] = -r.slo
		r.backward[k] += r.slo
	case a.row >= 0:
		// The slope of the value is the budget that reaches it, and falls with
		// the price: the slope at the end of a step is what the step gains at
		// the least, and unlike a difference it has no rounding noise.
		r.forward[k] = 0
		for _, i := range r.rows[a.row] {
			r.forward[k] += r.budget(i, r.flow[k]+delta)
			if r.flow[k] >= delta {
				r.backward[k] -= r.budget(i, r.flow[k]-delta)
			}
		}
	}
}

// improve sends delta around one cycle that gains; false when there is none.
func (r *relaxation) improve(delta float64) bool {
	at := r.cycle()
	if at < 0 {
		return false
	}
	for n := at; ; {
		s := r.pred[n]
		if s.back {
			r.flow[s.arc] -= delta
			n = r.arcs[s.arc].to
		} else {
			r.flow[s.arc] += delta
			n = r.arcs[s.arc].from
		}
		r.gains(s.arc, delta)
		if n == at {
			return true
		}
	}
}

// cycle is a node on a cycle of positive gain, or -1.
func (r *relaxation) cycle() int {
	for n := range r.label {
		r.label[n], r.pred[n] = 0, pathStep{arc: -1}
	}
	noise := 1e-13 * r.slo
	for range 4 * len(r.label) {
		changed := false
		r.work += len(r.arcs)
		for k, a := range r.arcs {
			if l := r.label[a.from] + r.forward[k]; l > r.label[a.to]+noise {
				r.label[a.to], r.pred[a.to], changed = l, pathStep{k, false}, true
			}
			if l := r.label[a.to] + r.backward[k]; l > r.label[a.from]+noise {
				r.label[a.from], r.pred[a.from], changed = l, pathStep{k, true}, true
			}
		}
		if !changed {
			return -1
		}
		if at := r.loop(); at >= 0 {
			return at
		}
	}
	return -1
}

// loop is a node on a cycle of predecessors, or -1. Labels only rise, so such
// a cycle has a positive gain.
func (r *relaxation) loop() int {
	seen := r.seen
	clear(seen)
	for start := range r.pred {
		n := start
		for seen[n] == 0 && r.pred[n].arc >= 0 {
			seen[n] = start + 1
			s := r.pred[n]
			if s.back {
				n = r.arcs[s.arc].to
			} else {
				n = r.arcs[s.arc].from
			}
		}
		if seen[n] == start+1 && r.pred[n].arc >= 0 {
			return n
		}
		if seen[n] == 0 {
			seen[n] = start + 1
		}
	}
	return -1
}
