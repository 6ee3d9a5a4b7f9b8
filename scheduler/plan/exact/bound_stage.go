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
	own              [][]owned // by budget: what it may have alone, as far as some price asks for it
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
