package bound

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Who shares at all: a plan of at most two groups a module, each of one kind, has some
// set B of modules with a batch on a device that they share, and others on devices of
// their own alone. The others cost what package whole knows of whole devices. A module
// of B runs on shared devices alone, where it uses u_h(L) = min over (b, d) of h of d/P,
// P = min(b/T, max(g, L - d - w_h)), of those of kind h, w_h the shortest batch of
// another module of B; or it has one group on devices of its own and another on a shared
// one (see beside). The shared devices D number no more than B: each has groups of two
// modules at least, of two that each of them has at most. So with prices l for devices,
// and any prices lambda >= 0 for the use of shared ones, plans with this B and D cost at
// least
//
//	sum over D of (l - lambda)  +  min over budgets of
//	    sum over others of own(L)  +  sum over B of (devices of its own + lambda·use)(L)
//
// The least of it over all B and D, each with the best prices that are found, is a bound.

const (
	mostResidents  = 4    // modules that may share
	mostRuns       = 32   // configurations of each
	residentPoints = 160  // budgets, in one ratio, at which costs are looked at
	residentCounts = 48   // own devices of a kind that are counted one by one
	residentPrices = 8    // that are tried for one choice of devices
	residentBoxes  = 12   // of one split of an objective
	mostPriced     = 5000 // times modules
	maxKinds       = 8    // of hardware
	mostSums       = 4000 // of prices that are looked at for one
)

// residents is the search over who shares.
type residents struct {
	s       *devices
	own     [][]split.Steps // what modules cost alone
	modules []resident
	open    []*node
	priced  int // times modules, that costs were worked out
}

// resident is a module that may share.
type resident struct {
	*plan.ModuleProblem
	pipeline, module int
	shortest         []time.Duration // by kind, 0 where it cannot run
	budgets          []float64       // where costs are looked at, rising, in whole nanoseconds
	alone            [][]float64     // by kind and budget, the share of its stream that a device of its own serves
}

// ways are how a module can run that shares.
type ways struct {
	whole [][]float64 // by kind and budget, what its whole stream uses of shared devices; +Inf where it cannot run
	mixed [][]mixed   // by budget, beside devices of its own
}

// mixed is what devices of its own cost a module, and what the others use of a shared
// device of a kind.
type mixed struct {
	paid float64
	kind int
	use  float64
}

// residents is the least cost of plans by who shares, or some cost that is at least
// enough; 0 where there are too many modules, kinds or configurations.
func (s *devices) residents(own [][]split.Steps, enough float64) float64 {
	r := &residents{s: s, own: own}
	for i, p := range s.problems {
		fast := make([]time.Duration, len(p.Modules))
		for k, m := range p.Modules {
			fast[k] = m.Fastest()
		}
		around := p.DAG.Around(fast)
		for k, m := range p.Modules {
			if m.Rate > 0 {
				r.modules = append(r.modules, s.resident(i, k, m, p.Pipeline.SLO-around[k]))
			}
		}
	}
	if len(r.modules) > mostResidents || len(s.kinds) > maxKinds {
		return 0
	}
	if slices.ContainsFunc(r.modules, func(m resident) bool { return len(m.Configs) > mostRuns }) {
		return 0
	}
	least, _ := r.cost(&node{}, nil)
	least = math.Min(least, enough)
	prices := make([]float64, len(s.kinds))
	for k := range prices {
		prices[k] = s.kinds[k].Weight
	}
	for set := uint(1); set < 1<<len(r.modules); set++ {
		if bits.OnesCount(set) > 1 {
			x := &node{set: set, ways: r.ways(set, enough), n: make([]float64, len(s.kinds))}
			for k := range x.n {
				x.n[k] = math.Inf(1)
			}
			for i := range r.modules {
				x.from, x.to = append(x.from, 0), append(x.to, len(r.modules[i].budgets)-1)
				x.low, x.top = append(x.low, 0), append(x.top, math.Inf(1))
			}
			x.bound, _ = r.cost(x, prices)
			r.open = append(r.open, x)
		}
	}
	for len(r.open) > 0 {
		at := 0
		for i, x := range r.open {
			if x.bound < r.open[at].bound {
				at = i
			}
		}
		x := r.open[at]
		if x.bound >= least || r.spent() {
			return math.Min(least, x.bound)
		}
		if r.open = slices.Delete(r.open, at, at+1); x.devices == 0 {
			r.devices(x, least)
		} else if !r.halve(x, least) && !r.choose(x, least) {
			return x.bound
		}
	}
	return least
}

// node is a part of the search: who shares, how many devices of every kind, and between
// which of their budgets the modules of the set have theirs.
type node struct {
	set      uint
	ways     []ways
	n        []float64 // shared devices by kind; +Inf where that is open
	devices  int       // their sum; 0 where it is open
	from, to []int     // by module, numbers of budgets
	low, top []float64 // by module, what its own devices cost
	bound    float64
}

// spent says that the search has done what it may.
func (r *residents) spent() bool {
	return r.priced > mostPriced || r.s.problems[0].Options.Halted()
}

// devices opens the node for all numbers of shared devices.
func (r *residents) devices(x *node, enough float64) {
	n := make([]float64, len(r.s.kinds))
	var visit func(k int, left, paid float64)
	visit = func(k int, left, paid float64) {
		if k == len(n) {
			if all := bits.OnesCount(x.set); int(left) < all {
				r.without(x, slices.Clone(n), all-int(left), enough)
			}
			return
		}
		for n[k] = 0; n[k] <= left && paid+n[k]*r.s.kinds[k].Weight < enough; n[k]++ {
			visit(k+1, left-n[k], paid+n[k]*r.s.kinds[k].Weight)
		}
		n[k] = 0
	}
	visit(0, float64(bits.OnesCount(x.set)), 0)
}

// without opens the node for so many shared devices, in all ways in which few enough of
// the modules have devices of their own: such a module has one group that is shared, and
// every shared device has two.
func (r *residents) without(x *node, n []float64, devices int, enough float64) {
	none := 2*devices - bits.OnesCount(x.set)
	for set := uint(0); set <= x.set; set++ {
		if set&^x.set != 0 || bits.OnesCount(set) != max(0, none) {
			continue
		}
		one := *x
		one.n, one.devices, one.top = n, devices, slices.Clone(x.top)
		for k := range one.top {
			if set>>k&1 != 0 {
				one.top[k] = 0
			}
		}
		r.raise(&one, enough)
		r.open = append(r.open, &one)
	}
}

// halve opens the node for two halves of the budgets of a module that shares; false when
// there is nothing to halve.
func (r *residents) halve(x *node, enough float64) bool {
	most, which, at := 0, -1, 0
	for i, p := range r.s.problems {
		low := make([]time.Duration, len(p.Modules))
		for k, m := range p.Modules {
			low[k] = m.Fastest()
		}
		for k := range r.modules {
			if m := &r.modules[k]; m.pipeline == i && x.set>>k&1 != 0 {
				low[m.module] = max(low[m.module], time.Duration(m.budgets[x.from[k]]*1e9))
			}
		}
		around := p.DAG.Around(low)
		for k := range r.modules {
			m := &r.modules[k]
			if m.pipeline != i || x.set>>k&1 == 0 {
				continue
			}
			last, _ := slices.BinarySearch(m.budgets, (p.Pipeline.SLO-around[m.module]).Seconds()+1e-9)
			if last = min(last-1, x.to[k]); last-x.from[k] > most {
				most, which, at = last-x.from[k], k, (x.from[k]+last)/2
			}
		}
	}
	if which < 0 {
		return false
	}
	below, above := *x, *x
	below.to, above.from = slices.Clone(x.to), slices.Clone(x.from)
	below.to[which], above.from[which] = at, at+1
	for _, half := range []*node{&below, &above} {
		r.raise(half, enough)
		r.open = append(r.open, half)
	}
	return true
}

func (s *devices) resident(pipeline, module int, m *plan.ModuleProblem, longest time.Duration) resident {
	r := resident{ModuleProblem: m, pipeline: pipeline, module: module, alone: make([][]float64, len(s.kinds))}
	first, last := m.Fastest().Seconds(), longest.Seconds()
	for k := range residentPoints + 1 {
		r.budgets = append(r.budgets, math.Min(last, plan.ToDuration(first*math.Pow(last/first, float64(k)/residentPoints)).Seconds()))
	}
	for _, h := range s.kinds {
		r.shortest = append(r.shortest, m.FastestOn(h.Hardware))
		for n := 1; n <= residentCounts; n++ {
			least := math.Inf(1)
			for k := range m.Configs {
				if m.Configs[k].Hardware == h.Hardware {
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
		r.alone[h] = make([]float64, len(r.budgets))
		for i := range r.budgets {
			for k := range m.Configs {
				if c := &m.Configs[k]; s.kindOf(c) == h {
					r.alone[h][i] = math.Max(r.alone[h][i], m.Serves(c, r.until(i)))
				}
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

// ways are those of the modules of the set, by module; own devices cost no more than enough.
func (r *residents) ways(set uint, enough float64) []ways {
	all := make([]ways, len(r.modules))
	for at := range r.modules {
		if set>>at&1 == 0 {
			continue
		}
		m, w := &r.modules[at], &all[at]
		w.whole, w.mixed = make([][]float64, len(r.s.kinds)), make([][]mixed, len(m.budgets))
		waits := make([]time.Duration, len(r.s.kinds))
		for h := range r.s.kinds {
			waits[h] = nobody
			for other := range r.modules {
				if d := r.modules[other].shortest[h]; other != at && set>>other&1 != 0 && d > 0 {
					waits[h] = min(waits[h], d)
				}
			}
			w.whole[h] = make([]float64, len(m.budgets))
		}
		for i := range m.budgets {
			for h := range w.whole {
				w.whole[h][i] = math.Inf(1)
			}
			for k := range m.Configs {
				c := &m.Configs[k]
				h := r.s.kindOf(c)
				if period := m.Period(c, m.until(i)-takes(c, waits[h])); period > 0 {
					w.whole[h][i] = math.Min(w.whole[h][i], c.Interval()/period)
				}
			}
			w.mixed[i] = r.mixed(m, i, waits, enough)
		}
	}
	return all
}

// nobody is the wait where no other module can run.
const nobody = time.Duration(1) << 60

// takes is how long after its window a batch is done at the soonest, in seconds.
func takes(c *plan.Config, wait time.Duration) float64 {
	if c.Concurrency > 1 {
		wait = 0
	}
	return (c.Duration + wait).Seconds()
}

// mixed lists what pays of devices of its own and a part of a shared one.
func (r *residents) mixed(m *resident, i int, waits []time.Duration, enough float64) (list []mixed) {
	latency := m.until(i)
	for k, h := range r.s.kinds {
		share := m.alone[k][i]
		if share <= 0 {
			continue
		}
		if 1/share > residentCounts { // not counted
			list = append(list, mixed{paid: h.Weight / share, kind: -1})
			continue
		}
		all := math.Max(1, math.Ceil(1/share-plan.RateTolerance))
		list = append(list, mixed{paid: all * h.Weight, kind: -1})
		for n := 1.0; n < all && n*h.Weight < enough; n++ {
			for shared := range r.s.kinds {
				least := math.Inf(1)
				for o := range m.Configs {
					own := &m.Configs[o]
					if r.s.kindOf(own) != k || own.Duration.Seconds() >= latency {
						continue
					}
					for b := range m.Configs {
						if c := &m.Configs[b]; r.s.kindOf(c) == shared {
							if period := m.beside(own, n, c, latency, takes(c, waits[shared])); period > 0 {
								least = math.Min(least, c.Interval()/period)
							}
						}
					}
				}
				if least <= 1+plan.RateTolerance {
					list = append(list, mixed{n * h.Weight, shared, least})
				}
			}
		}
	}
	return list
}

// beside is the longest, in seconds, between two batches of a group on a shared device,
// done takes after their windows, beside n devices with another configuration; 0 or less
// where there is none. With rates sT and (1-s)T, periods P_o and P, windows W_o and W and
// g the greatest common divisor of the periods, the processor-demand test asks in the
// long run (see package whole, refuted)
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

// choose opens the node for two ranges of what own devices of a module cost; false where
// there is nothing to choose.
func (r *residents) choose(x *node, enough float64) bool {
	most, which, at := 1, -1, 0.0
	for k := range r.modules {
		if x.set>>k&1 == 0 {
			continue
		}
		var paid []float64
		if x.low[k] <= 0 {
			paid = append(paid, 0)
		}
		for i := x.from[k]; i <= x.to[k]; i++ {
			for _, one := range x.ways[k].mixed[i] {
				if one.paid >= x.low[k] && one.paid <= x.top[k] {
					paid = append(paid, one.paid)
				}
			}
		}
		slices.Sort(paid)
		if paid = slices.Compact(paid); len(paid) > most {
			most, which, at = len(paid), k, paid[(len(paid)-1)/2]
		}
	}
	if which < 0 {
		return false
	}
	below, above := *x, *x
	below.top, above.low = slices.Clone(x.top), slices.Clone(x.low)
	below.top[which], above.low[which] = at, math.Nextafter(at, math.Inf(1))
	for _, half := range []*node{&below, &above} {
		r.raise(half, enough)
		r.open = append(r.open, half)
	}
	return true
}

// raise looks for prices that make the bound of the node as high as they can, up to
// enough.
func (r *residents) raise(x *node, enough float64) {
	prices, paid := make([]float64, len(x.n)), 0.0
	for k, h := range r.s.kinds {
		prices[k] = h.Weight
		paid += x.n[k] * h.Weight
	}
	for t := range residentPrices {
		cost, use := r.cost(x, prices)
		cost += paid
		for k := range prices {
			cost -= prices[k] * x.n[k]
		}
		if x.bound = math.Max(x.bound, cost); x.bound < enough {
			x.bound = math.Max(x.bound, r.s.atLeast(x.n, x.bound, enough))
		}
		if x.bound >= enough || r.spent() {
			return
		}
		step := 1.2 / math.Sqrt(float64(t+1))
		for k, n := range x.n {
			by := (use[k] - n) / math.Max(1, math.Max(use[k], n))
			prices[k] = math.Max(prices[k]*math.Exp(step*by), leastOfPrice*r.s.kinds[k].Weight)
		}
	}
}

// atLeast is the least cost of n devices of every kind or more that is at least so much,
// or enough.
func (s *devices) atLeast(n []float64, cost, enough float64) float64 {
	paid := 0.0
	for k, h := range s.kinds {
		paid += n[k] * h.Weight
	}
	cost *= 1 - plan.OptimalityGap/10
	visits := 0
	var visit func(k int, paid float64)
	visit = func(k int, paid float64) {
		if visits++; k == 0 {
			enough = math.Min(enough, paid+s.kinds[0].Weight*math.Max(0, math.Ceil((cost-paid)/s.kinds[0].Weight)))
			return
		}
		for ; paid < enough && visits < mostSums; paid += s.kinds[k].Weight {
			visit(k-1, paid)
			if paid >= cost {
				return
			}
		}
	}
	if visit(len(s.kinds)-1, paid); visits >= mostSums {
		return 0
	}
	return enough
}

// cost is what modules cost at the least where those that share pay such prices for the
// use of shared devices, and how they use these then.
func (r *residents) cost(x *node, prices []float64) (least float64, use []float64) {
	use = make([]float64, len(r.s.kinds))
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
				costs[m.module] = m.steps(x, at, prices)
			}
		}
		sum, budgets := split.Least(p, costs, residentBoxes)
		least += sum
		for at := range r.modules {
			if m := &r.modules[at]; x.set>>at&1 != 0 && m.pipeline == i && budgets != nil {
				k, _ := slices.BinarySearch(m.budgets, budgets[m.module].Seconds()+0.5e-9)
				m.at(min(max(x.from[at], k-1), x.to[at]), x, at, prices, use)
			}
		}
	}
	return least, use
}

// steps are what a module costs that shares, number at of all, by its budget.
func (m *resident) steps(x *node, at int, prices []float64) split.Steps {
	var steps []split.Step
	for i := x.from[at]; i <= x.to[at]; i++ {
		if cost := m.at(i, x, at, prices, nil); !math.IsInf(cost, 1) {
			steps = append(steps, split.Step{Budget: m.budgets[i], Cost: cost})
		}
	}
	if len(steps) == 0 {
		steps = append(steps, split.Step{Budget: m.budgets[x.to[at]], Cost: math.MaxFloat32})
	}
	return split.NewSteps(steps)
}

// at is the least cost of a module that shares, under budget number i, where n devices
// of every kind are shared, and what it adds to their use then; use may be nil.
func (m *resident) at(i int, x *node, at int, prices, use []float64) float64 {
	least, which := math.Inf(1), -1
	w, n, low, top := &x.ways[at], x.n, x.low[at], x.top[at]
	for k, x := range w.mixed[i] {
		if x.paid < low || x.paid > top {
			continue
		}
		cost := x.paid
		if x.kind >= 0 {
			if n[x.kind] == 0 {
				continue
			}
			cost += prices[x.kind] * x.use
		}
		if cost < least {
			least, which = cost, k
		}
	}
	sum, left := 0.0, 1.0 // on shared devices alone, the cheapest first, and no more than there are
	var uses [maxKinds]float64
	for left > plan.RateTolerance && low <= 0 {
		next, price := -1, math.Inf(1)
		for h := range w.whole {
			if x := prices[h] * w.whole[h][i]; n[h] > 0 && uses[h] == 0 && x < price {
				next, price = h, x
			}
		}
		if next < 0 {
			break
		}
		serves := math.Min(left, n[next]/w.whole[next][i])
		sum, left, uses[next] = sum+serves*price, left-serves, serves*w.whole[next][i]
	}
	if left <= plan.RateTolerance && sum < least {
		for h := range use {
			use[h] += uses[h]
		}
		return sum
	}
	if use != nil && which >= 0 && w.mixed[i][which].kind >= 0 {
		use[w.mixed[i][which].kind] += w.mixed[i][which].use
	}
	return least
}
