package exact

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
// their own alone. The others cost what whole_module.go computes for whole devices. A
// module of B runs on shared devices alone, where it uses u_h(L) = min over (b, d) of h of
// d/P, P = min(b/T, max(g, L - d - w)), of one of kind h, w the shortest batch that it
// waits for there; or it has one group on devices of its own and another on a shared one
// (see beside). The shared devices D number no more than B: each has groups of two modules
// at least, of two that each of them has at most. So with prices l for devices, and any
// prices lambda >= 0 for the use of shared ones, plans with this B and D cost at least
//
//	sum over D of (l - lambda)  +  min over budgets of
//	    sum over others of own(L)  +  sum over B of (devices of its own + lambda·use)(L)
//
// The least of it over all B and D, each with the best prices that are found, is a bound.
// A branch and bound improves it. It branches on which modules run on which shared device,
// what the devices of a module's own cost, how long its budget is, and how long the longest
// batch of a module on a shared device is. All others there wait for that one, and none of
// its own is longer.

const (
	mostResidents  = 4     // modules that may share
	mostRuns       = 32    // configurations of each
	residentPoints = 160   // budgets, in one ratio, at which costs are looked at
	residentCounts = 64    // own devices of a kind that are counted one by one
	residentPrices = 8     // that are tried for one choice of devices
	laterPrices    = 4     // for a part of it
	priceGain      = 1e-3  // by which prices must raise a bound for more to be tried
	residentSteps  = 32    // in what a module costs by its budget
	residentBoxes  = 2     // of one split of an objective
	mostPriced     = 20000 // times modules
	maxKinds       = 8     // of hardware
	mostSums       = 4000  // of prices that are looked at for one
)

// residents is the search over who shares.
type residents struct {
	s       *devices
	own     [][]split.Steps // what modules cost alone
	modules []resident
	open    []*node
	priced  int // times modules, that costs were worked out
	known   map[boundGroup]*uses
}

// node is a part of the search: who shares, on which devices, and between which of their
// budgets the modules of the set have theirs.
type node struct {
	set      uint
	sites    []site    // the shared devices; one of every kind, any number of times, where that is open
	counted  bool      // it is not
	n        []float64 // shared devices by kind
	from, to []int     // by module, numbers of budgets
	low, top []float64 // by module, what its own devices cost
	prices   []float64 // by shared device, the best that were found; nil where none were looked for
	bound    float64
}

// site is a device that modules share.
type site struct {
	kind    int
	placed  bool // all of the members are known to run there; else they may
	members uint
	longest []span // by module, its longest batch there
}

// span is a range of durations.
type span struct{ least, most time.Duration }

const anyDuration = time.Duration(math.MaxInt64)

// residents is the least cost of plans by who shares, or some cost that is at least
// enough; false where there are too many modules, kinds or configurations.
func (s *devices) residents(own [][]split.Steps, enough float64) (cost float64, ok bool) {
	r := &residents{s: s, own: own, known: map[boundGroup]*uses{}}
	for i, p := range s.problems {
		around := p.DAG.Around(p.Fastest())
		for k, m := range p.Modules {
			if m.Rate > 0 {
				r.modules = append(r.modules, s.resident(i, k, m, p.Pipeline.SLO-around[k]))
			}
		}
	}
	if len(r.modules) > mostResidents || len(s.kinds) > maxKinds {
		return 0, false
	}
	if slices.ContainsFunc(r.modules, func(m resident) bool { return len(m.Configs) > mostRuns }) {
		return 0, false
	}
	least, _ := r.cost(&node{}, nil, nil)
	least = math.Min(least, enough)
	for set := uint(1); set < 1<<len(r.modules); set++ {
		if bits.OnesCount(set) > 1 {
			r.open = append(r.open, r.among(set))
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
			return math.Min(least, x.bound), true
		}
		r.open = slices.Delete(r.open, at, at+1)
		if !x.counted {
			r.devices(x, least)
		} else if !r.place(x, least) && !r.divide(x, least) {
			return x.bound, true
		}
	}
	return least, true
}

// among is the node of all plans in which the modules of a set share.
func (r *residents) among(set uint) *node {
	x := &node{set: set, n: make([]float64, len(r.s.kinds))}
	prices := make([]float64, len(r.s.kinds))
	for k := range r.s.kinds {
		x.sites, prices[k] = append(x.sites, site{kind: k, members: set}), r.s.kinds[k].Weight
	}
	for i := range r.modules {
		x.from, x.to = append(x.from, 0), append(x.to, len(r.modules[i].budgets)-1)
		x.low, x.top = append(x.low, 0), append(x.top, math.Inf(1))
	}
	x.bound, _ = r.cost(x, r.runs(x), prices)
	return x
}

// spent reports that the search has done what it may.
func (r *residents) spent() bool {
	return r.priced > mostPriced || r.s.problems[0].Options.Stopped()
}

// add opens a node unless it costs as much as is enough.
func (r *residents) add(x *node, enough float64) {
	if r.raise(x, enough); x.bound < enough {
		r.open = append(r.open, x)
	}
}

// devices opens the node for all numbers of shared devices.
func (r *residents) devices(x *node, enough float64) {
	n, all := make([]float64, len(r.s.kinds)), bits.OnesCount(x.set)
	var visit func(k int, sites []site, paid float64)
	visit = func(k int, sites []site, paid float64) {
		if len(sites) > all || paid >= enough {
			return
		}
		if k == len(n) {
			if len(sites) > 0 {
				one := *x
				one.counted, one.n, one.sites, one.prices = true, slices.Clone(n), slices.Clone(sites), nil
				for i := range one.sites {
					one.sites[i].placed = all == 2 || len(sites) == 1
				}
				if r.limit(&one) {
					r.add(&one, enough)
				}
			}
			return
		}
		for n[k] = 0; len(sites) <= all; n[k]++ {
			visit(k+1, sites, paid+n[k]*r.s.kinds[k].Weight)
			sites = append(slices.Clone(sites), site{kind: k, members: x.set, longest: r.spans()})
		}
		n[k] = 0
	}
	visit(0, nil, 0)
}

func (r *residents) spans() []span {
	list := make([]span, len(r.modules))
	for k := range list {
		list[k] = span{0, anyDuration}
	}
	return list
}

// limit takes what follows from where modules are known to run: one with groups on two
// shared devices has none of its own, and runs on no third. It is false where some
// module runs on none, or one has no configuration for a device.
func (r *residents) limit(x *node) bool {
	x.sites, x.top = slices.Clone(x.sites), slices.Clone(x.top)
	all := uint(0)
	for k := range r.modules {
		on := 0
		for _, s := range x.sites {
			if s.placed && s.members>>k&1 != 0 {
				if on++; r.modules[k].shortest[s.kind] == 0 {
					return false
				}
			}
		}
		if on > 2 || on == 2 && x.low[k] > 0 {
			return false
		}
		for j := range x.sites {
			if s := &x.sites[j]; on == 2 && !s.placed {
				s.members &^= 1 << k
			}
		}
		if on == 2 {
			x.top[k] = 0
		}
	}
	for _, s := range x.sites {
		if all |= s.members; bits.OnesCount(s.members) < 2 {
			return false
		}
	}
	return all == x.set
}

// place opens the node for all sets of modules that the next shared device may have;
// false where that is known of all.
func (r *residents) place(x *node, enough float64) bool {
	at := slices.IndexFunc(x.sites, func(s site) bool { return !s.placed })
	if at < 0 {
		return false
	}
	of := x.sites[at].members
	for members := of; members > 0; members = (members - 1) & of {
		if at > 0 && x.sites[at-1].kind == x.sites[at].kind && members > x.sites[at-1].members {
			continue // of two devices of a kind the first has the greater set
		}
		one := *x
		one.sites = slices.Clone(x.sites)
		one.sites[at].placed, one.sites[at].members = true, members
		if r.limit(&one) {
			r.add(&one, enough)
		}
	}
	return true
}

// divide splits the node by halving what is least certain in its bound: the budget of a
// module, what its own devices cost, or how long its longest batch on a shared device is.
// It is false when there is nothing to divide.
func (r *residents) divide(x *node, enough float64) bool {
	widest := 0.0
	var below, above *node
	offer := func(width float64, halves func(below, above *node)) {
		if width <= widest {
			return
		}
		one, other := *x, *x
		widest, below, above = width, &one, &other
		halves(below, above)
	}
	for k := range r.modules {
		if x.set>>k&1 == 0 {
			continue
		}
		m := &r.modules[k]
		if last := r.last(x, k); last > x.from[k] {
			offer(math.Log(m.budgets[last]/m.budgets[x.from[k]]), func(below, above *node) {
				at := (x.from[k] + last) / 2
				below.to, above.from = slices.Clone(x.to), slices.Clone(x.from)
				below.to[k], above.from[k] = at, at+1
			})
		}
		if paid := r.paid(x, k); len(paid) > 1 {
			cheap := r.s.kinds[0].Weight
			offer(math.Log((paid[len(paid)-1]+cheap)/(paid[0]+cheap)), func(below, above *node) {
				at := paid[(len(paid)-1)/2]
				below.top, above.low = slices.Clone(x.top), slices.Clone(x.low)
				below.top[k], above.low[k] = at, math.Nextafter(at, math.Inf(1))
			})
		}
		for j, s := range x.sites {
			if s.members>>k&1 == 0 {
				continue
			}
			if list := m.within(s.kind, s.longest[k]); len(list) > 1 {
				offer(math.Log(float64(list[len(list)-1])/float64(list[0])), func(below, above *node) {
					at := (len(list) - 1) / 2
					below.sites, above.sites = slices.Clone(x.sites), slices.Clone(x.sites)
					below.sites[j].longest, above.sites[j].longest = slices.Clone(s.longest), slices.Clone(s.longest)
					below.sites[j].longest[k].most, above.sites[j].longest[k].least = list[at], list[at+1]
				})
			}
		}
	}
	if below == nil {
		return false
	}
	r.add(below, enough)
	r.add(above, enough)
	return true
}

// last is the number of the longest budget that others leave to a module.
func (r *residents) last(x *node, at int) int {
	p := r.s.problems[r.modules[at].pipeline]
	low := p.Fastest()
	for k := range r.modules {
		if m := &r.modules[k]; m.pipeline == r.modules[at].pipeline && x.set>>k&1 != 0 {
			low[m.module] = max(low[m.module], time.Duration(m.budgets[x.from[k]]*1e9))
		}
	}
	around := p.DAG.Around(low)
	last, _ := slices.BinarySearch(r.modules[at].budgets, (p.Pipeline.SLO-around[r.modules[at].module]).Seconds()+1e-9)
	return min(last-1, x.to[at])
}

// raise looks for prices that make the bound of the node as high as they can, up to
// enough; from those on that were the best of the node that it is a part of.
func (r *residents) raise(x *node, enough float64) {
	prices, paid, tries := slices.Clone(x.prices), 0.0, laterPrices
	for _, s := range x.sites {
		if x.prices == nil {
			prices, tries = append(prices, r.s.kinds[s.kind].Weight), residentPrices
		}
		paid += r.s.kinds[s.kind].Weight
	}
	x.prices = slices.Clone(prices)
	runs, highest := r.runs(x), 0.0
	for t := range tries {
		cost, use := r.cost(x, runs, prices)
		cost += paid
		for _, l := range prices {
			cost -= l
		}
		gain := cost > highest*(1+priceGain)
		if cost > highest {
			highest = cost
			copy(x.prices, prices)
		}
		if x.bound = math.Max(x.bound, cost); x.bound < enough {
			x.bound = math.Max(x.bound, r.s.atLeast(x.n, x.bound, enough))
		}
		if x.bound >= enough || r.spent() || t > 0 && !gain && tries == laterPrices {
			return
		}
		step := 1.2 / math.Sqrt(float64(t+1+residentPrices-tries))
		for j, s := range x.sites {
			by := (use[j] - 1) / math.Max(1, use[j])
			prices[j] = math.Max(prices[j]*math.Exp(step*by), leastOfPrice*r.s.kinds[s.kind].Weight)
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
