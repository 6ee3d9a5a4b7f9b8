package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// stage is a module in the linear program.
type stage struct {
	*plan.ModuleProblem
	pipeline, module int
	budgets          []float64 // seconds, rising: where costs are looked at
	row              int       // the first of its rows: one a knot
	own              [][]owned // by budget: what it may have alone, as far as some price makes it pay
}

// owned is what a module's own devices cost, and what they leave of its stream.
type owned struct{ cost, left float64 }

// knot is the row of the knot at or before a budget, and how much the next one counts.
func (m *stage) knot(e int) (row int, part float64) {
	return m.row + e/columnPoints, float64(e%columnPoints) / columnPoints
}

// until is the longest budget for which costs are those of budget number e.
func (m *stage) until(e int) float64 {
	if e+1 < len(m.budgets) {
		return m.budgets[e+1] - 0.5e-9
	}
	return m.budgets[e] + 0.5e-9
}

// enter adds a part of the module's stream at a budget to a column.
func (m *stage) enter(c *column, e int, part float64) {
	row, next := m.knot(e)
	for k, f := range []float64{1 - next, next} {
		if f == 0 || part == 0 {
			continue
		}
		if at := slices.Index(c.rows, row+k); at >= 0 {
			c.entries[at] += f * part
		} else {
			c.rows, c.entries = append(c.rows, row+k), append(c.entries, f*part)
		}
	}
}

// newColumns lists the modules, and what may be on a device; nil where there are too many.
func (s *devices) newColumns(enough float64) *columns {
	c := &columns{s: s}
	for i, p := range s.problems {
		around := p.DAG.Around(p.Fastest())
		for k, m := range p.Modules {
			if m.Rate > 0 {
				c.stages = append(c.stages, s.stage(i, k, m, p.Pipeline.SLO-around[k], len(c.stages)*(columnKnots+1)))
			}
		}
	}
	if len(c.stages) > columnModules || len(c.stages) < 2 || len(s.kinds) > maxKinds {
		return nil
	}
	c.mix()
	most := c.firstPrices()
	for r := range most {
		most[r] *= columnHighest
	}
	c.lp = newProgram(len(c.stages)*(columnKnots+1), len(s.problems), enough, most)
	return c
}

func (s *devices) stage(pipeline, module int, m *plan.ModuleProblem, longest time.Duration, row int) *stage {
	x := &stage{ModuleProblem: m, pipeline: pipeline, module: module, row: row}
	first, last := m.Fastest().Seconds(), longest.Seconds()
	for e := range columnKnots*columnPoints + 1 {
		part := float64(e) / (columnKnots * columnPoints)
		x.budgets = append(x.budgets, math.Min(last, plan.ToDuration(first+(last-first)*part).Seconds()))
	}
	for e := range x.budgets {
		x.own = append(x.own, x.alone(s, x.until(e)))
	}
	return x
}

// alone lists what the module may have of its own under a budget. Kinds of which very
// many are needed count by parts.
func (m *stage) alone(s *devices, budget float64) []owned {
	share := make([]float64, len(s.kinds))
	for n := range m.Configs {
		g := &m.Configs[n]
		k := s.kindOf(g)
		share[k] = math.Max(share[k], m.Serves(g, budget))
	}
	list, part := []owned{{0, 1}}, math.Inf(1)
	for k, f := range share {
		if f <= 0 {
			continue
		}
		price := s.kinds[k].Weight
		if n := math.Ceil(1/f - plan.RateTolerance); n > columnCounts || float64(len(list))*n > columnCombos {
			part = math.Min(part, price/f)
			continue
		}
		for _, o := range slices.Clone(list) {
			for left := o.left; left > 0; {
				o.cost, left = o.cost+price, left-f
				if left <= plan.RateTolerance {
					left = 0
				}
				list = append(list, owned{o.cost, left})
			}
		}
	}
	if !math.IsInf(part, 1) {
		for _, o := range slices.Clone(list) {
			list = append(list, owned{o.cost + o.left*part, 0})
		}
	}
	return lower(list)
}

// lower is the lower convex hull by what is left, from all of it on.
func lower(list []owned) (hull []owned) {
	slices.SortFunc(list, func(a, b owned) int {
		switch {
		case a.cost < b.cost || a.cost == b.cost && a.left < b.left:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	for _, x := range list {
		if len(hull) > 0 && x.left >= hull[len(hull)-1].left {
			continue
		}
		for len(hull) > 1 {
			a, b := hull[len(hull)-2], hull[len(hull)-1]
			if (a.left-x.left)*(b.cost-a.cost) < (a.left-b.left)*(x.cost-a.cost) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, x)
	}
	return hull
}

// cheapest is what the module costs under a budget at a price for what is left.
func (m *stage) cheapest(e int, price float64) (best owned, cost float64) {
	cost = math.Inf(1)
	for _, o := range m.own[e] {
		if x := o.cost + o.left*price; x < cost {
			best, cost = o, x
		}
	}
	return best, cost
}

// pipeline is the least cost of a pipeline at prices of its modules by their budgets, as
// a bound, and a column that nearly reaches it.
func (c *columns) pipeline(i int, v [][]float64) (column, float64) {
	p := c.s.problems[i]
	costs := make([]split.Cost, len(p.Modules))
	for k := range costs {
		costs[k] = split.Steps(nil)
	}
	for n, m := range c.stages {
		if m.pipeline != i {
			continue
		}
		steps := make([]split.Step, len(m.budgets))
		for e, l := range m.budgets {
			_, cost := m.cheapest(e, v[n][e])
			steps[e] = split.Step{Budget: l, Cost: cost}
		}
		costs[m.module] = split.NewSteps(steps)
	}
	least, budgets := split.Least(p, costs, mostBoundBoxes)
	col := column{rows: []int{c.lp.whole + i}, entries: []float64{1}, budgets: budgets}
	for n, m := range c.stages {
		if m.pipeline != i || budgets == nil {
			continue
		}
		at, cost := -1, math.Inf(1)
		for e, l := range m.budgets {
			if l > budgets[m.module].Seconds()+0.5e-9 {
				break
			}
			if _, x := m.cheapest(e, v[n][e]); x < cost {
				at, cost = e, x
			}
		}
		if at < 0 {
			return column{cost: math.Inf(1)}, least
		}
		o, _ := m.cheapest(at, v[n][at])
		col.cost += o.cost
		m.enter(&col, at, -o.left)
	}
	return col, least
}

// curve is what one module uses of a device for its whole stream, by its budget, when it
// waits so long for others there.
type curve struct {
	stage int
	use   []float64 // by budget, falling; +Inf where it cannot
	first int       // budget where it can
	parts []part    // at the prices given
}

// part is a step between two budgets, or from nothing to one: of concave worth by use.
type part struct {
	stage    int
	from, to int // budgets; -1 for nothing
	use      float64
	slope    float64 // worth of all of the device
}

// load states how long batches on a device are.
type load struct {
	kind, holder int // the module with the longest
	curves       []*curve
}

// mix lists the loads: for each module and batch of it that is the longest, by how long
// the longest of another module is.
func (c *columns) mix() {
	type key struct {
		stage, kind   int
		longest, wait time.Duration
	}
	known := map[key]*curve{}
	curveOf := func(k key) *curve {
		x, ok := known[k]
		if !ok {
			if x = c.curve(k.stage, k.kind, k.longest, k.wait); x != nil {
				c.curves = append(c.curves, x)
			}
			known[k] = x
		}
		return x
	}
	for kind := range c.s.kinds {
		durations := make([][]time.Duration, len(c.stages))
		var all []time.Duration
		for i, m := range c.stages {
			for n := range m.Configs {
				if g := &m.Configs[n]; c.s.kindOf(g) == kind {
					durations[i] = append(durations[i], g.Duration)
				}
			}
			slices.Sort(durations[i])
			durations[i] = slices.Compact(durations[i])
			all = append(all, durations[i]...)
		}
		slices.Sort(all)
		for j := range c.stages {
			for _, longest := range durations[j] {
				for _, l := range ranges(all) {
					if l.least > longest {
						break
					}
					one, shared := load{kind: kind, holder: j}, false
					wait := l.least
					if c.besides(j) {
						wait = 0
					}
					if x := curveOf(key{j, kind, longest, wait}); x != nil {
						one.curves = append(one.curves, x)
					} else {
						continue
					}
					for i := range c.stages {
						if i == j || len(durations[i]) == 0 {
							continue
						}
						if wait = longest; !c.s.waits(c.stages[i].pipeline, c.stages[j].pipeline) {
							wait = 0
						}
						if x := curveOf(key{i, kind, min(longest, l.most), wait}); x != nil {
							one.curves, shared = append(one.curves, x), true
						}
					}
					if shared {
						c.loads = append(c.loads, one)
					}
				}
			}
		}
	}
}

// besides reports whether another module may be on a device that this one need not wait for.
func (c *columns) besides(stage int) bool {
	for i, other := range c.stages {
		if i != stage && !c.s.waits(c.stages[stage].pipeline, other.pipeline) {
			return true
		}
	}
	return false
}

// ranges are those of rising durations, in one ratio.
func ranges(all []time.Duration) (list []span) {
	if len(all) == 0 {
		return nil
	}
	ratio := math.Pow(float64(all[len(all)-1])/float64(all[0]), 1.0/columnLevels)
	for _, d := range all {
		if n := len(list); n > 0 && float64(d) <= float64(list[n-1].least)*ratio {
			list[n-1].most = d
		} else {
			list = append(list, span{d, d})
		}
	}
	return list
}

// curve is nil where the module has no batch that is short enough.
func (c *columns) curve(stage, kind int, longest, wait time.Duration) *curve {
	m := c.stages[stage]
	x, able := &curve{stage: stage, use: make([]float64, len(m.budgets))}, false
	for e := range x.use {
		x.use[e] = math.Inf(1)
		for n := range m.Configs {
			g := &m.Configs[n]
			if c.s.kindOf(g) != kind || g.Duration > longest {
				continue
			}
			takes := g.Duration
			if g.Concurrency == 1 {
				takes += wait
			}
			if period := m.Period(g, m.until(e)-takes.Seconds()); period > 0 {
				x.use[e], able = math.Min(x.use[e], g.Interval()/period), true
			}
		}
	}
	if !able {
		return nil
	}
	for math.IsInf(x.use[x.first], 1) {
		x.first++
	}
	return x
}

// corner is a budget of a hull; -1 for nothing.
type corner struct {
	e          int
	use, worth float64
}

// price makes the parts: the upper concave hull of worth by use. hull is room for it.
func (x *curve) price(v []float64, hull []corner) {
	hull[0] = corner{e: -1}
	n := 1
	for e := len(x.use) - 1; e >= x.first; e-- {
		at := corner{e, x.use[e], v[e]}
		if at.worth <= hull[n-1].worth {
			continue
		}
		for n > 1 && (at.worth-hull[n-2].worth)*(hull[n-1].use-hull[n-2].use) >= (hull[n-1].worth-hull[n-2].worth)*(at.use-hull[n-2].use) {
			n--
		}
		hull[n] = at
		n++
	}
	x.parts = x.parts[:0]
	for k := 1; k < n; k++ {
		use := hull[k].use - hull[k-1].use
		x.parts = append(x.parts, part{x.stage, hull[k-1].e, hull[k].e, use, (hull[k].worth - hull[k-1].worth) / use})
	}
}

// fill is how much a device is worth at the most, relative to its price, and the best
// device of every kind with every module that may have the longest batch there.
func (c *columns) fill(v [][]float64) (worth float64, found []column) {
	for _, x := range c.curves {
		if len(x.use) >= len(c.hull) {
			c.hull = make([]corner, len(x.use)+1)
		}
		x.price(v[x.stage], c.hull)
	}
	best, value := make([]*load, len(c.s.kinds)*len(c.stages)), make([]float64, len(c.s.kinds)*len(c.stages))
	heads := make([]int, len(c.stages))
	for k := range c.loads {
		l := &c.loads[k]
		at := l.kind*len(c.stages) + l.holder
		c.work += len(l.curves)
		if sum := l.worth(heads, value[at], nil); sum > value[at] {
			best[at], value[at] = l, sum
		}
	}
	for at, l := range best {
		if l == nil {
			continue
		}
		col := column{cost: c.s.kinds[l.kind].Weight}
		worth = math.Max(worth, value[at]/col.cost)
		l.worth(heads, 0, func(p part, f float64) {
			if p.from >= 0 {
				c.stages[p.stage].enter(&col, p.from, -f)
			}
			c.stages[p.stage].enter(&col, p.to, f)
		})
		found = append(found, col)
	}
	return worth, found
}

// worth is what a device is worth with the parts that are worth most, and takes these; it
// may be less where it is no more than least. heads is room for a number by curve: the
// parts of each stand in order, since its hull is concave.
func (l *load) worth(heads []int, least float64, take func(p part, f float64)) float64 {
	clear(heads)
	left, sum := 1.0, 0.0
	for left > 0 {
		at, slope := -1, 0.0
		for k, x := range l.curves {
			if h := heads[k]; h < len(x.parts) && x.parts[h].slope > slope {
				at, slope = k, x.parts[h].slope
			}
		}
		if at < 0 || sum+left*slope <= least {
			break
		}
		p := l.curves[at].parts[heads[at]]
		heads[at]++
		f := 1.0
		if p.use > left {
			f = left / p.use
		}
		sum += f * p.use * slope
		left -= f * p.use
		if take != nil {
			take(p, f)
		}
	}
	return sum
}
