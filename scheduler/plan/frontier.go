package plan

import (
	"math"
	"time"
)

// leastWindow is the shortest window that a plan can state, in seconds.
const leastWindow = 1e-9

// curve is what one configuration costs as a function of the budget L:
//
//	cost(L) = rise / min(flat, L - duration),  L > duration,
//
// convex, falling like a hyperbola, then constant. Times are in seconds.
type curve struct {
	rise     float64 // p·d/s
	flat     float64 // b/T, the window beyond which nothing is saved
	duration float64
}

// frontier is the exact trade-off of a module: the least of its curves. It is
// continuous and falls, and is not convex. A frontier without curves is that
// of a module that receives nothing: it costs nothing under any budget.
type frontier []curve

// frontiers are those of all modules, with weights divided by scale so that no
// price overflows.
func (p *planner) frontiers() (all []frontier, scale float64) {
	scale = p.weightScale()
	all = make([]frontier, len(p.modules))
	for i, m := range p.modules {
		if m.rate == 0 {
			continue
		}
		for _, c := range m.configs {
			all[i] = append(all[i], curve{rise: c.weight / scale * c.pace(), flat: float64(c.batch) / m.rate, duration: c.duration.Seconds()})
		}
		all[i] = all[i].lower()
	}
	return all, scale
}

// lower leaves out curves that another one is nowhere above.
func (f frontier) lower() frontier {
	under := func(a, b curve) bool {
		return a.duration <= b.duration && a.rise <= b.rise && a.rise/a.flat <= b.rise/b.flat
	}
	var kept frontier
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

// weightScale is the greatest weight of a machine, 1 where there is none.
func (p *planner) weightScale() float64 {
	scale := 0.0
	for _, m := range p.modules {
		for _, c := range m.configs {
			scale = math.Max(scale, c.weight)
		}
	}
	if scale == 0 {
		return 1
	}
	return scale
}

func trades(costs []frontier) []trade {
	list := make([]trade, len(costs))
	for i, f := range costs {
		list[i] = f
	}
	return list
}

// at is the least cost under a budget and the curve that reaches it; -1 and
// +Inf where there is none.
func (f frontier) at(budget float64) (cost float64, which int) {
	if len(f) == 0 {
		return 0, -1
	}
	cost, which = math.Inf(1), -1
	for i, c := range f {
		if w := math.Min(c.flat, budget-c.duration); w > 0 && c.rise/w < cost {
			cost, which = c.rise/w, i
		}
	}
	return cost, which
}

// least is the smallest value of cost(L) + price·L over low <= L <= high: what
// the module pays when latency has a price per second, and the budget that
// reaches it. In closed form: on the
// hyperbola the derivative vanishes where the window is sqrt(rise/price).
func (f frontier) least(price, low, high float64) (value, budget float64) {
	if len(f) == 0 {
		return price * low, low
	}
	value, budget = math.Inf(1), low
	for _, c := range f {
		from := math.Max(low, c.duration+leastWindow)
		if from > high*(1+1e-15) {
			continue
		}
		w := math.Min(c.flat, math.Sqrt(c.rise/price)) // NaN where both are zero
		if !(w > 0) {
			w = 0
		}
		l := math.Min(math.Max(from, c.duration+w), math.Max(from, high))
		v := c.rise/math.Min(c.flat, math.Max(l-c.duration, leastWindow)) + price*l
		if v < value {
			value, budget = v, l
		}
	}
	return value, budget
}

// fastest is the least budget of the frontier.
func (f frontier) fastest() float64 {
	if len(f) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, c := range f {
		least = math.Min(least, c.duration+leastWindow)
	}
	return least
}

// wholeNanoseconds rounds down.
func wholeNanoseconds(seconds float64) time.Duration {
	return time.Duration(math.Floor(math.Max(0, seconds)*1e9 + roundingTolerance))
}
