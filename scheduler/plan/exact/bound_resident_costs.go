package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// resident is a module that may share.
type resident struct {
	*plan.ModuleProblem
	pipeline, module int
	shortest         []time.Duration   // by kind, 0 where it cannot run
	durations        [][]time.Duration // by kind, of its batches, rising
	budgets          []float64         // where costs are looked at, rising, in whole nanoseconds
	alone            [][]float64       // by kind and budget, the share of its stream that a device of its own serves
	counts           [][]int           // by kind and budget, how many serve all of it at the least; 0 where it cannot run
	full             []float64         // by kind, the most of its stream that one device serves
}

func (s *devices) resident(pipeline, module int, m *plan.ModuleProblem, longest time.Duration) resident {
	r := resident{
		ModuleProblem: m, pipeline: pipeline, module: module, alone: make([][]float64, len(s.kinds)), counts: make([][]int, len(s.kinds)),
		durations: make([][]time.Duration, len(s.kinds)), full: make([]float64, len(s.kinds)),
	}
	first, last := m.Fastest().Seconds(), longest.Seconds()
	for k := range residentPoints + 1 {
		r.budgets = append(r.budgets, math.Min(last, plan.ToDuration(first*math.Pow(last/first, float64(k)/residentPoints)).Seconds()))
	}
	for h, kind := range s.kinds {
		r.shortest = append(r.shortest, m.FastestOn(kind.Hardware))
		for k := range m.Configs {
			if c := &m.Configs[k]; s.kindOf(c) == h {
				r.durations[h], r.full[h] = append(r.durations[h], c.Duration), math.Max(r.full[h], c.Throughput()/m.Rate)
			}
		}
		slices.Sort(r.durations[h])
		r.durations[h] = slices.Compact(r.durations[h])
		for n := 1; n <= residentCounts; n++ {
			least := math.Inf(1)
			for k := range m.Configs {
				if m.Configs[k].Hardware == kind.Hardware {
					least = math.Min(least, m.Latency(&m.Configs[k], n))
				}
			}
			if least > first && least < last {
				r.budgets = append(r.budgets, math.Min(last, plan.ToDuration(least).Seconds()))
			}
		}
	}
	slices.Sort(r.budgets)
	r.budgets = slices.Compact(r.budgets)
	for h := range s.kinds {
		r.alone[h], r.counts[h] = make([]float64, len(r.budgets)), make([]int, len(r.budgets))
		for i := range r.budgets {
			for k := range m.Configs {
				if c := &m.Configs[k]; s.kindOf(c) == h {
					r.alone[h][i] = math.Max(r.alone[h][i], m.Serves(c, r.until(i)))
				}
			}
			if share := r.alone[h][i]; share > 0 {
				r.counts[h][i] = int(math.Max(1, math.Ceil(1/share-plan.RateTolerance)))
			}
		}
	}
	return r
}

// until is the longest budget for which costs are those of budget number i.
func (r *resident) until(i int) float64 {
	if i+1 < len(r.budgets) {
		return r.budgets[i+1] - 0.5e-9
	}
	return r.budgets[i] + 0.5e-9
}

// within are its durations on a kind of hardware that a span has.
func (r *resident) within(kind int, s span) []time.Duration {
	list := r.durations[kind]
	first, _ := slices.BinarySearch(list, s.least)
	last, found := slices.BinarySearch(list, s.most)
	if found {
		last++
	}
	return list[first:max(first, last)]
}

// boundGroup is a group of a module on a shared device, whose batches wait so long for others.
type boundGroup struct {
	module   int
	own, n   int // kind and number of the devices of its own; none for n = 0
	kind     int
	wait     time.Duration
	duration span
}

// uses are what a group uses of its device at the least, by budget, as far as that was
// worked out.
type uses struct {
	boundGroup
	list []float64 // NaN where it was not; nil where nothing was
}

// uses of a group are worked out once.
func (r *residents) uses(g boundGroup) *uses {
	u, ok := r.known[g]
	if !ok {
		u = &uses{boundGroup: g}
		r.known[g] = u
	}
	return u
}

// use is what a group uses under budget number i; +Inf where it cannot run.
func (r *residents) use(g *uses, i int) float64 {
	if g.list == nil {
		g.list = make([]float64, len(r.modules[g.module].budgets))
		for k := range g.list {
			g.list[k] = math.NaN()
		}
	}
	if !math.IsNaN(g.list[i]) {
		return g.list[i]
	}
	m, least := &r.modules[g.module], math.Inf(1)
	latency := m.until(i)
	for k := range m.Configs {
		c := &m.Configs[k]
		if c.Duration < g.duration.least || c.Duration > g.duration.most || r.s.kindOf(c) != g.kind {
			continue
		}
		if g.n == 0 {
			if period := m.Period(c, latency-takes(c, g.wait)); period > 0 {
				least = math.Min(least, c.Interval()/period)
			}
			continue
		}
		for o := range m.Configs {
			own := &m.Configs[o]
			if r.s.kindOf(own) != g.own || own.Duration.Seconds() >= latency {
				continue
			}
			if period := m.beside(own, float64(g.n), c, latency, takes(c, g.wait)); period > 0 {
				least = math.Min(least, c.Interval()/period)
			}
		}
	}
	g.list[i] = least
	return least
}

// takes is how long after its window a batch is done at the soonest, in seconds.
func takes(c *plan.Config, wait time.Duration) float64 {
	if c.Concurrency > 1 {
		wait = 0
	}
	return (c.Duration + wait).Seconds()
}

// beside is the longest, in seconds, between two batches of a group on a shared device,
// done takes after their windows, beside n devices with another configuration; 0 or less
// where there is none. With rates sT and (1-s)T, periods P_o and P, windows W_o and W and
// g the greatest common divisor of the periods, the processor-demand test asks in the
// long run (see whole_mixture.go)
//
//	s·(P_o - W_o) + (1-s)·(P - W)  <=  s·(1-s)·g
//
// with g no longer than either period. Own devices are ready every d/n; the shorter P_o,
// the longer P may be, and s is at most what they serve.
func (m *resident) beside(own *plan.Config, n float64, c *plan.Config, latency, takes float64) float64 {
	window := latency - takes
	if window <= 0 {
		return 0
	}
	ready := own.Interval() / n
	short := ready - (latency - own.Duration.Seconds()) // by which own windows are shorter than periods
	most := math.Min(1-1e-9, n*math.Min(float64(own.Batch)/m.Rate, latency-own.Duration.Seconds())/own.Interval())
	byOwn := func(s float64) float64 { return window + s*ready - s/(1-s)*short }
	byShared := func(s float64) float64 { return window/(1-s) - s/(1-s)/(1-s)*short }
	best, other := most, most
	if short > 0 {
		best = math.Min(most, math.Max(0, 1-math.Sqrt(short/ready)))
		other = math.Min(most, math.Max(0, (window-short)/(window+short)))
	}
	return math.Min(float64(c.Batch)/m.Rate/(1-most), math.Min(byOwn(best), byShared(other)))
}

// nobody is the wait where no other module can run.
const nobody = time.Duration(1) << 60

// wait is the least that batches of a module wait for on a shared device: one of each other
// module that is known to be there, or of some that may be.
func (r *residents) wait(s *site, at int) time.Duration {
	all, any := time.Duration(0), nobody
	for k := range r.modules {
		if d := r.modules[k].shortest[s.kind]; k != at && s.members>>k&1 != 0 && d > 0 {
			if s.longest != nil {
				d = max(d, s.longest[k].least)
			}
			if !r.s.waits(r.modules[at].pipeline, r.modules[k].pipeline) {
				d = 0
			}
			all, any = max(all, d), min(any, d)
		}
	}
	if s.placed {
		return all
	}
	return any
}

// running is how a module can run in a node.
type running struct {
	m        *resident
	r        *residents
	low, top float64
	counted  bool
	whole    []way  // its whole stream, by shared device
	mixed    []*way // a part of it, beside devices of its own, the cheapest first
}

// way is a group on shared device number site.
type way struct {
	*uses
	site int
	paid float64 // for devices of its own
}

// runs are how the modules of the set can run in a node, by module.
func (r *residents) runs(x *node) []running {
	all := make([]running, len(r.modules))
	for at := range all {
		if x.set>>at&1 != 0 {
			all[at] = r.running(x, at)
		}
	}
	return all
}

func (r *residents) running(x *node, at int) running {
	out := running{m: &r.modules[at], r: r, low: x.low[at], top: x.top[at], counted: x.counted}
	for j := range x.sites {
		s := &x.sites[j]
		if s.members>>at&1 == 0 || out.m.shortest[s.kind] == 0 {
			continue
		}
		g := boundGroup{module: at, kind: s.kind, wait: r.wait(s, at), duration: span{0, anyDuration}}
		if s.longest != nil {
			g.duration = s.longest[at]
		}
		one := g
		one.duration.least = 0 // it may have two there
		out.whole = append(out.whole, way{r.uses(one), j, 0})
		if out.top == 0 {
			continue
		}
		for own, h := range r.s.kinds {
			most := out.most(own, x.from[at], x.to[at])
			for g.own, g.n = own, 1; g.n < most; g.n++ {
				if paid := float64(g.n) * h.Weight; paid >= out.low && paid <= out.top {
					out.mixed = append(out.mixed, &way{r.uses(g), j, paid})
				}
			}
		}
	}
	slices.SortFunc(out.mixed, func(a, b *way) int { return cmp.Compare(a.paid, b.paid) })
	return out
}

// most is how many devices of a kind serve all of the module's stream under some of the
// budgets from one number to another, at the most; 0 where it cannot run.
func (u *running) most(kind, from, to int) int {
	for i := from; i <= to; i++ {
		if n := u.m.counts[kind][i]; n != 0 {
			return min(n, residentCounts+1)
		}
	}
	return 0
}

// at is the least cost under budget number i, and what that adds to the use of shared
// devices; use may be nil.
func (u *running) at(i int, prices, use []float64) float64 {
	least, site, part := math.Inf(1), -1, 0.0
	offer := func(cost float64, on int, used float64) {
		if cost < least {
			least, site, part = cost, on, used
		}
	}
	for k := range u.r.s.kinds {
		u.alone(k, i, prices, offer)
	}
	for _, w := range u.mixed {
		if w.paid >= least {
			break
		}
		n := u.m.counts[w.own][i]
		if w.n >= n || n > residentCounts {
			continue
		}
		// What its own devices leave uses so much at the least.
		some := (1 - float64(w.n)*u.m.alone[w.own][i]) / u.m.full[w.kind]
		if some > 1+plan.RateTolerance || w.paid+prices[w.site]*some >= least {
			continue
		}
		if used := u.r.use(w.uses, i); used <= 1+plan.RateTolerance {
			offer(w.paid+prices[w.site]*used, w.site, used)
		}
	}
	if u.low > 0 {
		if use != nil && site >= 0 {
			use[site] += part
		}
		return least
	}
	sum, left := 0.0, 1.0 // on shared devices alone, the cheapest first, and no more than all of one
	var uses [mostResidents + maxKinds]float64
	for left > plan.RateTolerance {
		next, price := -1, math.Inf(1)
		for k := range u.whole {
			w := &u.whole[k]
			if x := prices[w.site] * u.r.use(w.uses, i); uses[k] == 0 && x < price {
				next, price = k, x
			}
		}
		if next < 0 {
			break
		}
		serves := left
		all := u.whole[next].list[i]
		if u.counted {
			serves = math.Min(left, 1/all)
		}
		sum, left, uses[next] = sum+serves*price, left-serves, serves*all
	}
	if left <= plan.RateTolerance && sum < least {
		for k := range u.whole {
			if use != nil {
				use[u.whole[k].site] += uses[k]
			}
		}
		return sum
	}
	if use != nil && site >= 0 {
		use[site] += part
	}
	return least
}

// alone offers what the devices of a module's own cost at the least that have all of its
// stream but what a shared device may have of it besides. Where they are many they are not
// counted: n of them and a share u of a shared one have all where n·v + u·f is 1, v being
// what one of its own serves and f what a shared one does when it does nothing else.
func (u *running) alone(kind, i int, prices []float64, offer func(cost float64, on int, used float64)) {
	n := u.m.counts[kind][i]
	weight := u.r.s.kinds[kind].Weight
	switch {
	case n == 0 || u.top == 0:
	case n <= residentCounts:
		if paid := math.Max(u.low, float64(n)*weight); paid <= u.top {
			offer(paid, -1, 0)
		}
	default:
		all := weight / u.m.alone[kind][i]
		for _, w := range u.whole {
			paid := all * math.Max(0, 1-u.m.full[w.kind])
			if paid > u.top {
				continue
			}
			offer(all, -1, 0)
			offer(paid+prices[w.site], w.site, 1)
		}
	}
}

// cost is what modules cost at the least where those that share run so and pay such prices
// for the use of shared devices, and how they use these then.
func (r *residents) cost(x *node, all []running, prices []float64) (least float64, use []float64) {
	use = make([]float64, len(x.sites))
	if r.priced += len(r.modules); r.spent() {
		return 0, use
	}
	for i, p := range r.s.problems {
		costs := make([]split.Cost, len(p.Modules))
		for k := range costs {
			costs[k] = r.own[i][k]
		}
		for at := range r.modules {
			if m := &r.modules[at]; x.set>>at&1 != 0 && m.pipeline == i {
				costs[m.module] = all[at].steps(x.from[at], x.to[at], prices)
			}
		}
		boxes := residentBoxes
		if x.set == 0 {
			boxes = mostBoundBoxes
		}
		sum, budgets := split.LeastRough(p, costs, boxes)
		least += sum
		for at := range r.modules {
			if m := &r.modules[at]; x.set>>at&1 != 0 && m.pipeline == i && budgets != nil {
				k, _ := slices.BinarySearch(m.budgets, budgets[m.module].Seconds()+0.5e-9)
				k = min(max(x.from[at], k-1), x.to[at]) - x.from[at]
				step := stride(x.from[at], x.to[at])
				all[at].at(min(x.from[at]+k/step*step+step-1, x.to[at]), prices, use)
			}
		}
	}
	return least, use
}

// steps are what a module costs that shares, by its budget: between two steps what it
// costs before the second one.
func (u *running) steps(from, to int, prices []float64) split.Steps {
	var steps []split.Step
	step := stride(from, to)
	for i := from; i <= to; i += step {
		if cost := u.at(min(i+step-1, to), prices, nil); !math.IsInf(cost, 1) {
			steps = append(steps, split.Step{Budget: u.m.budgets[i], Cost: cost})
		}
	}
	if len(steps) == 0 {
		steps = append(steps, split.Step{Budget: u.m.budgets[to], Cost: math.MaxFloat32})
	}
	return split.NewSteps(steps)
}

// stride is how many budgets one step of the cost has.
func stride(from, to int) int { return (to-from)/residentSteps + 1 }

// paid are the costs, rising, that the devices of a module's own may have in a node.
func (r *residents) paid(x *node, at int) []float64 {
	u := r.running(x, at)
	var list []float64
	if u.low <= 0 {
		list = append(list, 0)
	}
	for _, w := range u.mixed {
		list = append(list, w.paid)
	}
	for k, h := range r.s.kinds {
		for i := x.from[at]; i <= x.to[at]; i++ {
			if n := u.m.counts[k][i]; n > 0 && n <= residentCounts {
				if paid := float64(n) * h.Weight; paid >= u.low && paid <= u.top {
					list = append(list, paid)
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
