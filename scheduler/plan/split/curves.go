package split

import (
	"math"

	"github.com/harpagon/harpagon/scheduler/plan"
)

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
			all[i] = append(all[i], NewCurve(m, &c, c.Weight/scale, c.Duration.Seconds()))
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
