package split

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Cost is the trade-off of one module between its budget and what it costs
// under that budget, as the search over splits of the SLO sees it: a cost that
// falls as the budget grows. Times are in seconds, costs in scaled weights.
//
// Under the proportional cost model these are Curves, continuous in pieces;
// under the whole one Steps.
type Cost interface {
	// At is the least cost under a budget, +Inf where there is none, and the
	// number of the curve or step that reaches it, -1 where there is none.
	At(budget float64) (cost float64, which int)

	// Least is the smallest value of cost(L) + price·L over low <= L <= high,
	// and the budget that reaches it.
	Least(price, low, high float64) (value, budget float64)

	// Fastest is the least budget that has a finite cost.
	Fastest() float64

	// Size is the number of curves or steps.
	Size() int

	// Divide is where a box is best cut that holds the budget mid: budgets of
	// the lower half end at below, those of the upper half begin at above.
	Divide(mid, low, high float64) (below, above float64, ok bool)
}

// Curve is what one configuration costs as a function of the budget L:
//
//	cost(L) = rise / min(flat, max(one, L - duration)),  L > duration,
//
// constant, then falling like a hyperbola, then constant. Times are in seconds.
type Curve struct {
	Rise     float64 // p·d/s
	One      float64 // the gap between two requests: a shorter window costs no more
	Flat     float64 // b/T, the window beyond which nothing is saved
	Duration float64
}

// NewCurve is that of a configuration of a module, on devices that cost price, whose
// batches are done takes seconds after their windows.
func NewCurve(m *plan.ModuleProblem, c *plan.Config, price, takes float64) Curve {
	return Curve{Rise: price * c.Interval(), One: m.Gap(), Flat: float64(c.Batch) / m.Rate, Duration: takes}
}

// burstCurves are those of a configuration for bursts: in batches of one burst each, for which
// devices enough may wait, and collected from the fluid (plan.ModuleProblem.InBursts).
func burstCurves(m *plan.ModuleProblem, c *plan.Config, price float64) []Curve {
	rise, d := price*c.Interval(), c.Duration.Seconds()
	each := m.Bursts.Gap / float64(plan.Batches(m.Bursts.Items, c.Batch))
	return []Curve{
		{Rise: rise, One: each, Flat: each, Duration: d},
		{Rise: rise, Flat: float64(c.Batch) / m.Rate, Duration: d + m.Bursts.Shaped()},
	}
}

// at is the cost under a budget, +Inf where there is none.
func (c *Curve) at(budget float64) float64 {
	window := budget - c.Duration
	if !(window > 0) {
		return math.Inf(1)
	}
	return c.Rise / math.Min(c.Flat, math.Max(c.One, window))
}

// Curves are the exact trade-off of a module: the least of its curves. It is
// continuous and falls, and is not convex. Without curves it is that
// of a module that receives nothing: it costs nothing under any budget.
type Curves []Curve

// proportional are the curves of all modules under the proportional cost model,
// with weights divided by scale.
func proportional(p *plan.Prepared, scale float64) []Curves {
	all := make([]Curves, len(p.Modules))
	for i, m := range p.Modules {
		if m.Rate == 0 {
			continue
		}
		for _, c := range m.Configs {
			if m.Bursts.Items > 0 {
				all[i] = append(all[i], burstCurves(m, &c, c.Weight/scale)...)
			} else {
				all[i] = append(all[i], NewCurve(m, &c, c.Weight/scale, c.Duration.Seconds()))
			}
		}
		all[i] = all[i].Lower()
	}
	return all
}

// Lower leaves out curves that another one is nowhere above.
func (f Curves) Lower() Curves {
	under := func(a, b Curve) bool {
		return a.Duration <= b.Duration && a.Rise <= b.Rise && a.Rise/a.Flat <= b.Rise/b.Flat
	}
	var kept Curves
	for i, c := range f {
		worse := false
		for j, other := range f {
			if i != j && under(other, c) && (j < i || !under(c, other)) {
				worse = true
				break
			}
		}
		if !worse {
			kept = append(kept, c)
		}
	}
	return kept
}

// Costs are curves as a search takes them.
func Costs(curves []Curves) []Cost {
	list := make([]Cost, len(curves))
	for i, c := range curves {
		list[i] = c
	}
	return list
}

// At is the least cost under a budget and the curve that reaches it; -1 and
// +Inf where there is none.
func (f Curves) At(budget float64) (cost float64, which int) {
	if len(f) == 0 {
		return 0, -1
	}
	cost, which = math.Inf(1), -1
	for i, c := range f {
		if x := c.at(budget); x < cost {
			cost, which = x, i
		}
	}
	return cost, which
}

// Least is the smallest value of cost(L) + price·L over low <= L <= high: what
// the module pays when latency has a price per second, and the budget that
// reaches it. In closed form: on the
// hyperbola the derivative vanishes where the window is sqrt(rise/price); before it
// the shortest budget is the best.
func (f Curves) Least(price, low, high float64) (value, budget float64) {
	if len(f) == 0 {
		return price * low, low
	}
	value, budget = math.Inf(1), low
	for _, c := range f {
		from := math.Max(low, c.Duration+plan.LeastWindow)
		if from > high*(1+1e-15) {
			continue
		}
		w := math.Min(c.Flat, math.Sqrt(c.Rise/price)) // NaN where both are zero
		if !(w > 0) {
			w = 0
		}
		l := math.Min(math.Max(from, c.Duration+w), math.Max(from, high))
		if from-c.Duration < c.One {
			if v := c.at(from) + price*from; v < value {
				value, budget = v, from
			}
		}
		if v := c.at(math.Max(l, c.Duration+plan.LeastWindow)) + price*l; v < value {
			value, budget = v, l
		}
	}
	return value, budget
}

// Fastest is the least budget that has a cost.
func (f Curves) Fastest() float64 {
	if len(f) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, c := range f {
		least = math.Min(least, c.Duration+plan.LeastWindow)
	}
	return least
}

// Size is the number of curves.
func (f Curves) Size() int { return len(f) }

// Divide cuts anywhere: the cost is continuous.
func (f Curves) Divide(mid, low, high float64) (below, above float64, ok bool) {
	if high-low <= 4*plan.LeastWindow {
		return 0, 0, false
	}
	if edge := 1e-3 * (high - low); mid < low+edge || mid > high-edge {
		mid = (low + high) / 2
	}
	return mid, mid, true
}

// Step is one of Steps: from this budget on the module costs no more
// than cost.
type Step struct {
	Budget float64 // seconds
	Cost   float64 // scaled weight
}

// Steps are the trade-off of a module that runs on whole devices: the cost falls
// in steps as the budget grows. Budgets rise strictly, costs fall strictly. A
// Without steps it is that of a module that receives nothing.
type Steps []Step

// NewSteps keeps the steps that no other undercuts in both budget and cost.
func NewSteps(steps []Step) Steps {
	slices.SortFunc(steps, func(a, b Step) int {
		switch {
		case a.Budget < b.Budget || a.Budget == b.Budget && a.Cost < b.Cost:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	var s Steps
	for _, x := range steps {
		if len(s) == 0 || x.Cost < s[len(s)-1].Cost*(1-plan.CostTolerance) {
			s = append(s, x)
		}
	}
	return s
}

// upTo is the number of steps whose budget is at most that.
func (s Steps) upTo(budget float64) int {
	n, _ := slices.BinarySearchFunc(s, budget, func(x Step, budget float64) int {
		if x.Budget > budget {
			return 1
		}
		return -1
	})
	return n
}

// At is the least cost under a budget and the number of its step; see Cost.
func (s Steps) At(budget float64) (float64, int) {
	if len(s) == 0 {
		return 0, -1
	}
	n := s.upTo(budget)
	if n == 0 {
		return math.Inf(1), -1
	}
	return s[n-1].Cost, n - 1
}

// Least is the smallest value of cost plus priced budget; see Cost.
func (s Steps) Least(price, low, high float64) (value, budget float64) {
	if len(s) == 0 {
		return price * low, low
	}
	return s.between(low, high).cheapest(price, low)
}

// between are the steps that reach a budget from low to high.
func (s Steps) between(low, high float64) Steps {
	first := max(0, s.upTo(low)-1)
	return s[first:max(first, s.upTo(high))]
}

// cheapest is Least of all steps.
func (s Steps) cheapest(price, low float64) (value, budget float64) {
	value, budget = math.Inf(1), low
	for _, x := range s {
		l := max(low, x.Budget)
		if v := x.Cost + price*l; v < value {
			value, budget = v, l
		}
	}
	return value, budget
}

// hull is the lower convex hull of the steps between two budgets; room is one that is not
// needed any more.
func (s Steps) hull(low, high float64, room Steps) Steps {
	hull := room[:0]
	for _, x := range s.between(low, high) {
		x.Budget = max(low, x.Budget)
		for n := len(hull); n > 1; n-- {
			a, b := hull[n-2], hull[n-1]
			if (b.Cost-a.Cost)*(x.Budget-a.Budget) <= (x.Cost-a.Cost)*(b.Budget-a.Budget) {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, x)
	}
	return hull
}

// Size is the number of steps.
func (s Steps) Size() int { return len(s) }

// Fastest is the least budget that has a cost.
func (s Steps) Fastest() float64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].Budget
}

// Divide cuts between two steps: a budget between them buys nothing more than
// the lower one does.
func (s Steps) Divide(mid, low, high float64) (below, above float64, ok bool) {
	const halfNanosecond = 0.5e-9
	n := s.upTo(mid)
	if n == s.upTo(high) { // nothing above mid: cut below it
		n--
	}
	if n < 1 || s[n].Budget > high || s[n].Budget <= low {
		return 0, 0, false
	}
	return s[n].Budget - halfNanosecond, s[n].Budget, true
}
