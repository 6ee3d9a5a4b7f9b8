package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// A grouping fixes which modules share which devices before budgets are chosen. Given a
// grouping, the rest is nearly convex: where batches of d_1, d_2, ... share a device and
// all wait up to the same deadline, that is their sum D, and the device is used by the sum
// of d_i/min(b_i/f_i, L_i - D). So budgets are split as under cost model proportional, with
// durations that are longer by what a batch waits (fit), and a search over groupings finds
// what no packing under budgets that were chosen for something else does.

// Bounds of the search, in steps and not in time, so that the same problem has the
// same plan on any machine.
const (
	mostSteps   = 6_000 // of one enumeration: a part put into a group
	mostFits    = 24    // groupings that it fits budgets to
	mostGrouped = 12    // parts that it enumerates

	mostNear  = 48  // groupings near the best one's that are enumerated
	nearSteps = 400 // of each of them
	nearFits  = 4
)

// group is the parts that share a device of a kind.
type group struct {
	kind  sharedKind
	parts []int
	wait  time.Duration // one batch of each
}

// regroup looks for a cheaper packing than the best one: among all groupings, where
// the parts are few, and among those that differ from the best one's by what runs on
// two or three of its devices.
func (s *packer) regroup(best *packing, certain func(*packing) bool) *packing {
	all := true // groupings of parts as they are divided were enumerated
	for _, most := range []float64{1, math.Inf(1)} {
		e := &regrouping{s: s, best: best, certain: certain, steps: mostSteps, fits: mostFits}
		more := e.start(func(_ int, at *assignment) bool { return at.machines() <= most })
		for i := range e.parts {
			e.loose = append(e.loose, i)
		}
		if len(e.parts) <= mostGrouped {
			e.look()
		}
		if e.best != best {
			return e.best
		}
		all = all && e.complete()
		if more == 0 {
			break
		}
	}
	for _, near := range s.nearest(best) {
		if all && !near.divides() {
			continue
		}
		e := &regrouping{s: s, best: best, certain: certain, steps: nearSteps, fits: nearFits, near: &near}
		if len(near.bins) == 3 && !near.divides() {
			e.steps = mostSteps // three devices have many groupings
		}
		if near.divides() {
			var ok bool
			if e.from, ok = s.dividedAs(best, &near); !ok {
				continue
			}
		}
		e.start(func(k int, _ *assignment) bool { return slices.Contains(near.own, k) })
		e.keep()
		e.look()
		if e.best != best || s.halted() {
			return e.best
		}
	}
	return best
}

// near is what of a packing is put together again.
type near struct {
	bins []int   // shared devices
	own  []int   // parts with devices of their own
	use  float64 // weight of what uses them

	part  int          // that is divided in another way
	by    *plan.Config // into so many full devices and a share of another; nil for none
	full  float64
	id    int  // of the two, among those of the part
	alone bool // into devices of its own only
}

func (n *near) divides() bool { return n.by != nil || n.alone }

func (n near) and(other near) near {
	return near{bins: slices.Concat(n.bins, other.bins), own: slices.Concat(n.own, other.own), use: n.use + other.use}
}

// dividedAs is a packing with one part divided as in near.
func (s *packer) dividedAs(of *packing, near *near) (*packing, bool) {
	from := *of
	from.parts = slices.Clone(of.parts)
	at := &from.parts[near.part]
	at.budget = s.problems[at.pipeline].own.LongestBudgets()[at.module]
	if near.alone {
		at.residual = 0
		return &from, true
	}
	var ok bool
	*at, ok = s.dividedBy(*at, *near.by, near.full)
	return &from, ok
}

// nearest lists what of a packing may be put together again: two shared devices, one
// and a module with devices of its own, or one and a module that is divided in
// another way; what is used least first. Of many parts it lists three shared devices, too.
func (s *packer) nearest(best *packing) (list []near) {
	if slices.ContainsFunc(best.bins, func(b bin) bool { return b.held != nil }) {
		return nil
	}
	var ones []near
	var all []int
	for k := range best.bins {
		all = append(all, k)
		ones = append(ones, near{bins: []int{k}, use: best.bins[k].use * best.bins[k].kind.weight})
	}
	shared := len(ones)
	for k, at := range best.parts {
		if part, ok := s.sharing(at, s.problems[at.pipeline].Pipeline.SLO); ok && at.residual == 0 {
			ones = append(ones, near{own: []int{k}, use: part.size})
		}
	}
	for i, a := range ones {
		if len(ones) == 1 || len(a.own) > 0 {
			list = append(list, a)
		}
		for _, b := range ones[i+1:] {
			if len(a.bins)+len(b.bins) > 0 {
				list = append(list, a.and(b))
			}
		}
	}
	list = leastUsed(list)
	var other []near
	for k, at := range best.parts {
		ways := s.fewer(&at)
		if s.mayOwn(best, k) {
			ways = append(ways, near{alone: true})
		}
		for _, one := range ways {
			one.part = k
			if one.bins = all; len(best.parts) <= mostGrouped || shared <= 1 {
				other = append(other, one)
				continue
			}
			for _, b := range ones[:shared] {
				one.bins, one.use = b.bins, b.use
				other = append(other, one)
			}
		}
	}
	list = append(list, leastUsed(other)...)
	if len(best.parts) > mostGrouped {
		list = append(list, leastUsed(threes(leastUsed(ones[:shared])))...) // of fewer parts all groupings are enumerated
	}
	return list
}

// threes lists three shared devices each.
func threes(ones []near) (list []near) {
	for i, a := range ones {
		for j, b := range ones[i+1:] {
			for _, c := range ones[i+j+2:] {
				list = append(list, a.and(b).and(c))
			}
		}
	}
	return list
}

// mayOwn reports whether a part may leave a shared device for devices of its own: where it has
// some, or where those cost less than the one that it shares.
func (s *packer) mayOwn(of *packing, part int) bool {
	at := &of.parts[part]
	if at.residual == 0 {
		return false
	}
	if len(at.dedicated) > 0 {
		return true
	}
	k := slices.IndexFunc(of.bins, func(b bin) bool { return slices.Contains(b.parts, part) })
	steps := s.ownSteps(at.pipeline, at.module)
	return len(steps) > 0 && plan.Cheaper(steps[len(steps)-1].Cost, of.bins[k].kind.weight)
}

func leastUsed(list []near) []near {
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Compare(a.use, b.use) })
	return list[:min(len(list), mostNear)]
}

// fewer lists numbers of full devices that cost less than those that a part has, or
// without any, than what it uses of a shared one.
func (s *packer) fewer(at *assignment) (list []near) {
	m, has := s.problems[at.pipeline].Modules[at.module], at.owns()
	if len(at.dedicated) == 0 {
		has = at.size
	}
	for i := range m.Configs {
		c := &m.Configs[i]
		for n, k := math.Floor(m.Rate/c.Throughput()+plan.RateTolerance), 0; n > 0 && k < 2; n, k = n-1, k+1 {
			if plan.Cheaper(n*c.Weight, has) {
				list = append(list, near{by: c, full: n, id: 2*i + k})
			}
		}
	}
	return list
}

// regrouping is one enumeration.
type regrouping struct {
	s       *packer
	best    *packing
	from    *packing // what it begins with, where that is not the best packing
	near    *near    // what of that is put together again; nil for all
	certain func(*packing) bool
	parts   []assignment   // what may be put into groups, that which uses most first
	loose   []int          // of them, that are not in a group yet
	fixed   float64        // weight of devices that stay as they are
	needs   allBudgets     // of modules that have devices of their own and a share of another
	own     [][]split.Cost // of modules that have devices of their own, by budget
	steps   int            // that are left
	fits    int            // that are left

	groups []group
	weight float64 // of groups
	most   float64 // that one of them uses of its device at the least
	found  []grouping
}

// grouping is one that costs less than the best packing, as an enumeration left it; most
// is what is used of a device at the most, as far as it is known.
type grouping struct {
	groups       []group
	weight, most float64
}

// complete reports that the enumeration was not ended by its bounds.
func (e *regrouping) complete() bool {
	return e.steps > 0 && e.fits > 0 && len(e.parts) <= mostGrouped
}

// start lists the parts; modules with devices of their own that need only a part of one may
// share where free returns true. It returns how many others could.
func (e *regrouping) start(free func(k int, at *assignment) bool) (more int) {
	s := e.s
	e.needs = make(allBudgets, len(s.problems))
	for i, p := range s.problems {
		e.needs[i] = make([]time.Duration, len(p.Modules))
		e.own = append(e.own, make([]split.Cost, len(p.Modules)))
	}
	if e.from == nil {
		e.from = e.best
	}
	for k, at := range e.from.parts {
		if part, ok := s.sharing(at, s.problems[at.pipeline].Pipeline.SLO); ok {
			if free(k, &at) {
				at = part
			} else {
				more++
			}
		}
		if at.residual == 0 && s.problems[at.pipeline].Modules[at.module].Rate > 0 {
			steps := s.ownSteps(at.pipeline, at.module)
			e.own[at.pipeline][at.module] = steps
			e.needs[at.pipeline][at.module] = plan.ToDuration(steps.Fastest())
			e.fixed += steps[len(steps)-1].Cost
			continue
		}
		e.fixed += at.owns()
		for k := range at.dedicated {
			t := &at.dedicated[k]
			need := t.Duration + t.Period
			if t.Items > 0 {
				need = t.Worst
			}
			e.needs[at.pipeline][at.module] = max(e.needs[at.pipeline][at.module], need)
		}
		if at.residual > 0 {
			e.parts = append(e.parts, s.unbudgeted(at))
		}
	}
	slices.SortStableFunc(e.parts, func(a, b assignment) int { return cmp.Compare(b.size, a.size) })
	return more
}

// unbudgeted is a part with all that it may run, whatever its budget in a packing is.
func (s *packer) unbudgeted(at assignment) assignment {
	p := s.problems[at.pipeline]
	at.budget = p.own.LongestBudgets()[at.module]
	s.choose(&at, p.Modules[at.module].Configs)
	return at
}

// keep puts the parts into groups as they were, but for those that are put together
// again.
func (e *regrouping) keep() {
	placed := make([]bool, len(e.parts))
	for k, b := range e.from.bins {
		if slices.Contains(e.near.bins, k) {
			continue
		}
		g := group{kind: b.kind}
		for _, i := range b.parts {
			at := e.from.parts[i]
			part := e.part(&at)
			if part < 0 {
				continue
			}
			placed[part] = true
			g.parts, g.wait = append(g.parts, part), g.wait+shortestOf(e.parts[part].choices[b.kind.index])
		}
		if len(g.parts) > 0 {
			e.groups, e.weight = append(e.groups, g), e.weight+b.kind.weight
		}
	}
	for i, ok := range placed {
		if !ok {
			e.loose = append(e.loose, i)
		}
	}
}

// sharing is a module with devices of its own as a part of a device that it shares
// under a budget;
// false where it has none, or needs more than one.
func (s *packer) sharing(at assignment, budget time.Duration) (assignment, bool) {
	if len(at.dedicated) == 0 {
		return at, false
	}
	m := s.problems[at.pipeline].Modules[at.module]
	at.residual, at.rest, at.dedicated, at.budget, at.items = m.Rate, wholeStream(m), nil, budget, m.Bursts.Items
	s.choose(&at, m.Configs)
	return at, !math.IsInf(at.size, 1)
}

// look enumerates groupings and fits budgets to those that cost less than the best
// packing: first to those that fit most easily.
func (e *regrouping) look() {
	if e.near != nil && len(e.near.bins) == 2 && e.merge() {
		return
	}
	e.visit(0)
	inOrder(e.found)
	if len(e.found) > e.fits {
		e.rank(e.found, 1)
		e.rank(e.found[:min(len(e.found), rankedTwice*e.fits)], 2)
	}
	for _, one := range e.found {
		if e.fits < 0 || e.certain(e.best) || e.s.halted() {
			return
		}
		if plan.Cheaper(e.fixed+one.weight, e.best.weight) {
			e.groups, e.weight = one.groups, one.weight
			e.fit()
		}
	}
}

// merge fits budgets to one device for all loose parts; true where that costs less. An
// enumeration of many parts may end before it comes to it.
func (e *regrouping) merge() bool {
	before := e.best
	for _, h := range e.s.kinds {
		g := group{kind: h, parts: e.loose}
		for _, i := range e.loose {
			shortest := shortestOf(e.parts[i].choices[h.index])
			if shortest == 0 {
				g.parts = nil
				break
			}
			g.wait += shortest
		}
		if g.parts == nil || h.count > 0 || !plan.Cheaper(e.fixed+e.weight+h.weight, e.best.weight) {
			continue
		}
		e.groups = append(e.groups, g)
		if e.possible() {
			e.fitFrom(e.lately())
		}
		e.groups = e.groups[:len(e.groups)-1]
	}
	return e.best != before
}

// inOrder puts those that fit most easily first.
func inOrder(list []grouping) {
	slices.SortStableFunc(list, func(a, b grouping) int { return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(a.weight, b.weight)) })
}

// visit puts the loose parts from i on into groups.
func (e *regrouping) visit(i int) {
	if e.steps--; e.steps < 0 || e.s.halted() {
		return
	}
	if i == len(e.loose) {
		if plan.Cheaper(e.fixed+e.weight, e.best.weight) {
			list := slices.Clone(e.groups)
			for k := range list {
				list[k].parts = slices.Clone(list[k].parts)
			}
			e.found = append(e.found, grouping{list, e.weight, e.most})
		}
		return
	}
	part := e.loose[i]
	for k := range e.groups {
		g := &e.groups[k]
		shortest := shortestOf(e.parts[part].choices[g.kind.index])
		if shortest == 0 {
			continue
		}
		g.parts, g.wait = append(g.parts, part), g.wait+shortest
		if e.possible() {
			e.visit(i + 1)
		}
		g = &e.groups[k]
		g.parts, g.wait = g.parts[:len(g.parts)-1], g.wait-shortest
	}
	for _, h := range e.s.kinds {
		shortest := shortestOf(e.parts[part].choices[h.index])
		if shortest == 0 || h.count > 0 || !plan.Cheaper(e.fixed+e.weight+h.weight, e.best.weight) {
			continue
		}
		e.groups, e.weight = append(e.groups, group{kind: h, parts: []int{part}, wait: shortest}), e.weight+h.weight
		if e.possible() {
			e.visit(i + 1)
		}
		e.groups, e.weight = e.groups[:len(e.groups)-1], e.weight-h.weight
	}
}

// possible reports whether each group uses no more than its device even if every part
// in it had all that the others leave of the objective at the least.
func (e *regrouping) possible() bool {
	low := make(allBudgets, len(e.needs))
	for i := range low {
		low[i] = slices.Clone(e.needs[i])
	}
	for i := range e.parts {
		at := &e.parts[i]
		low[at.pipeline][at.module] = max(low[at.pipeline][at.module], e.s.problems[at.pipeline].Modules[at.module].Fastest())
	}
	for _, g := range e.groups {
		for _, i := range g.parts {
			at := &e.parts[i]
			low[at.pipeline][at.module] = max(low[at.pipeline][at.module], g.wait)
		}
	}
	around := make(allBudgets, len(low))
	for i, p := range e.s.problems {
		around[i] = p.DAG.Around(low[i])
		for k := range around[i] {
			if around[i][k]+low[i][k] > p.Pipeline.SLO {
				return false
			}
		}
	}
	e.most = 0
	for _, g := range e.groups {
		use := 0.0
		for _, i := range g.parts {
			at := &e.parts[i]
			list := at.choices[g.kind.index]
			shortest, least := shortestOf(list), math.Inf(1)
			for _, c := range list {
				left := e.s.problems[at.pipeline].Pipeline.SLO - around[at.pipeline][at.module] - g.wait - (c.Duration - shortest)
				if period := at.period(&c, left); period > 0 {
					least = math.Min(least, float64(c.Duration)/float64(period))
				}
			}
			if use += least; use > 1 {
				return false
			}
		}
		e.most = math.Max(e.most, use)
	}
	return true
}
