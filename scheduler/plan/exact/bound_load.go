package exact

import (
	"math"
	"slices"
	"time"
)

// curve is what one module uses of a device for its whole stream, by its budget, when it
// waits so long for others there.
type curve struct {
	stage int
	use   []float64 // by budget, falling; +Inf where it cannot
	first int       // budget where it can
	parts []part    // at the prices that are asked
}

// part is a step between two budgets, or from nothing to one: of concave worth by use.
type part struct {
	stage    int
	from, to int // budgets; -1 for nothing
	use      float64
	slope    float64 // worth of all of the device
}

// load says how long batches on a device are.
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
					if x := curveOf(key{j, kind, longest, l.least}); x != nil {
						one.curves = append(one.curves, x)
					} else {
						continue
					}
					for i := range c.stages {
						if i == j || len(durations[i]) == 0 {
							continue
						}
						if x := curveOf(key{i, kind, min(longest, l.most), longest}); x != nil {
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
