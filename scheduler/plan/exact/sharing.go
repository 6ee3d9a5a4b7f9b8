package exact

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// How long the search goes on.
const (
	descents  = 2    // packings of the first splits that are followed
	mostMoves = 6    // that one of them is followed
	leastGain = 0.02 // of what the emptiest device is used by, to count as better
	rounds    = 30   // splits near the best one that are tried
	patience  = 8    // of them may bring nothing
)

func newPacker(problems []*problem) *packer {
	s := &packer{problems: problems}
	for _, p := range problems {
		for _, m := range p.Modules {
			for _, c := range m.Configs {
				if !slices.ContainsFunc(s.kinds, func(h sharedKind) bool { return h.hardware == c.Hardware }) {
					s.kinds = append(s.kinds, sharedKind{hardware: c.Hardware, price: c.Price, weight: c.Weight, memory: c.DeviceMemory, count: c.Count})
				}
			}
		}
	}
	slices.SortStableFunc(s.kinds, func(a, b sharedKind) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.hardware, b.hardware))
	})
	for i := range s.kinds {
		s.kinds[i].index = i
	}
	s.take(problems[0].Held)
	return s
}

// take opens the devices that others hold, of kinds that some module can use.
func (s *packer) take(held []plan.HeldDevice) {
	for i := range held {
		at := slices.IndexFunc(s.kinds, func(h sharedKind) bool { return h.hardware == held[i].Hardware })
		if at >= 0 && held[i].Share < 1 {
			s.held = append(s.held, bin{kind: s.kinds[at], held: &held[i]})
		}
	}
}

// halted says that the time is up.
func (s *packer) halted() bool { return s.problems[0].Options.Halted() }

// search looks for the cheapest packing and returns the lower bounds of the
// pipelines one by one, and of all of them together, in weights; nil when some
// pipeline has no split at all. It looks at the problem as it is, and where that
// does not reach the bound at harder ones, too (see harder).
func (s *packer) search() (best *packing, bounds []float64, bound float64) {
	best, bounds, bound = s.local()
	if best == nil {
		return nil, bounds, bound
	}
	return best, bounds, bound
}

// local searches near the splits to begin with.
func (s *packer) local() (best *packing, bounds []float64, bound float64) {
	starts, bounds, ok := s.starts()
	if !ok {
		return nil, nil, 0
	}
	for _, b := range bounds {
		bound += b
	}
	bound = s.payable(bound)
	done := func() bool { return best != nil && best.weight <= bound*(1+plan.OptimalityGap) }
	var firsts []*packing
	for _, b := range starts {
		if p := s.within(b); p != nil {
			firsts = append(firsts, p)
			if best == nil || plan.Cheaper(p.weight, best.weight) {
				best = p
			}
		}
		if done() || best != nil && s.halted() {
			break
		}
	}
	if best == nil {
		return nil, nil, 0
	}
	slices.SortStableFunc(firsts, func(a, b *packing) int {
		switch {
		case a.better(b):
			return -1
		case b.better(a):
			return 1
		}
		return 0
	})
	for _, first := range firsts[:min(descents, len(firsts))] {
		if p := s.descended(first, done); plan.Cheaper(p.weight, best.weight) {
			best = p
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same problem has the same plan
	for n, last := 0, 0; n < rounds && n-last < patience && !done() && !s.halted(); n++ {
		if p := s.within(s.near(best.budgets, random)); p != nil && p.better(best) {
			best, last = p, n
		}
	}
	return best, bounds, bound
}

// descended follows focused splits from a packing as long as they lead to better
// ones.
func (s *packer) descended(from *packing, done func() bool) *packing {
	for range mostMoves {
		next := from
		for _, b := range s.focused(from) {
			if done() || s.halted() {
				return from
			}
			if p := s.within(b); p != nil && p.better(next) {
				if next = p; plan.Cheaper(p.weight, from.weight) {
					break
				}
			}
		}
		if next == from {
			return from
		}
		from = next
	}
	return from
}

// better says whether a packing costs less, or as much with a device that is
// nearer to being empty.
func (p *packing) better(other *packing) bool {
	if plan.Cheaper(p.weight, other.weight) || plan.Cheaper(other.weight, p.weight) {
		return p.weight < other.weight
	}
	return p.emptiest() < other.emptiest()*(1-leastGain)
}

// emptiest is the least used part of a shared device, in weights.
func (p *packing) emptiest() float64 {
	least := math.Inf(1)
	for i := range p.bins {
		least = math.Min(least, p.bins[i].use*p.bins[i].kind.weight)
	}
	return least
}

// starts are the splits to begin with, every pipeline's in its own way: the
// proportional optimum, which uses least of the devices; that for whole
// devices; and the paper's.
func (s *packer) starts() (list []allBudgets, bounds []float64, ok bool) {
	list = make([]allBudgets, 3)
	bounds = make([]float64, len(s.problems))
	for i, p := range s.problems {
		proportional, bound, ok := p.searchProportional()
		if !ok {
			return nil, nil, false
		}
		bounds[i] = bound
		whole, _, ok := p.searchWhole()
		if !ok {
			return nil, nil, false
		}
		start, ok := p.started()
		if !ok {
			start = whole
		}
		for k, split := range [][]time.Duration{proportional, whole, start} {
			list[k] = append(list[k], p.DAG.Stretch(split, p.Pipeline.SLO))
		}
	}
	return append(list, s.waiting()...), bounds, true
}

// waitStep is the ratio of one wait for other groups' batches to the next, from
// the shortest duration on, and mostWaits how many are tried.
const (
	waitStep  = 1.35
	mostWaits = 24
)

// waiting lists the splits that use least of the devices when each batch may take
// longer after it was closed, because it waits for those of others: until a time
// that is the same for all, or in proportion to its duration. What a module on a
// shared device has to collect is its budget less that.
func (s *packer) waiting() (list []allBudgets) {
	shortest := math.Inf(1)
	for _, p := range s.problems {
		for _, m := range p.Modules {
			if m.Rate > 0 {
				shortest = math.Min(shortest, fastest(m).Seconds())
			}
		}
	}
	factors := []float64{1.5, 2, 3, 4, 6} // of the duration
	list = make([]allBudgets, 0, mostWaits+len(factors))
	offer := func(takes func(duration float64) float64) {
		one := make(allBudgets, 0, len(s.problems))
		for _, p := range s.problems {
			split, ok := p.withWait(takes)
			if !ok {
				return
			}
			one = append(one, split)
		}
		list = append(list, one)
	}
	wait := shortest
	for range mostWaits {
		wait *= waitStep
		offer(func(duration float64) float64 { return math.Max(duration, wait) })
	}
	for _, times := range factors {
		offer(func(duration float64) float64 { return times * duration })
	}
	return list
}

// withWait is the split of least proportional cost when a batch takes so long
// after it was closed.
func (p *problem) withWait(takes func(duration float64) float64) ([]time.Duration, bool) {
	b := split.NewProportional(p.Prepared)
	for i, c := range b.Costs {
		curves := slices.Clone(c.(split.Curves))
		for k := range curves {
			curves[k].Duration = takes(curves[k].Duration)
		}
		b.Costs[i] = curves.Lower()
	}
	b.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		cost, which := b.Costs[i].At(budget.Seconds())
		if which < 0 && p.Modules[i].Rate > 0 {
			return 0, 0, false
		}
		return cost, budget, true
	}
	b.Once()
	return b.Found, b.Found != nil
}

// focused are splits that leave every module what the packing needs and give what
// is left of the SLO to one module, or to those that share a device.
func (s *packer) focused(best *packing) (list []allBudgets) {
	needs := make(allBudgets, len(s.problems))
	for i, p := range s.problems {
		needs[i] = make([]time.Duration, len(p.Modules))
	}
	for _, at := range best.parts {
		need := time.Duration(0)
		for k := range at.dedicated {
			need = max(need, at.dedicated[k].Worst)
		}
		if len(at.dedicated) == 1 && at.residual == 0 {
			need = at.dedicated[0].Duration + at.dedicated[0].Period
		}
		needs[at.pipeline][at.module] = need
	}
	sets := [][]int{nil} // indices of parts
	for _, b := range best.bins {
		sets = append(sets, b.parts)
		for k, i := range b.parts {
			at, w := best.parts[i], b.options[k]
			need := &needs[at.pipeline][at.module]
			*need = max(*need, w.period+w.margin+w.deadline)
		}
	}
	for i := range best.parts {
		sets = append(sets, []int{i})
	}
	for _, set := range sets {
		list = append(list, s.favouring(best, needs, set))
	}
	return list
}

// favouring stretches the needs of some parts as far as the SLO allows, and then
// all others.
func (s *packer) favouring(best *packing, needs allBudgets, set []int) allBudgets {
	out := make(allBudgets, len(needs))
	for i, p := range s.problems {
		list := slices.Clone(needs[i])
		with := func(by float64) []time.Duration {
			longer := slices.Clone(list)
			for _, k := range set {
				if at := best.parts[k]; at.pipeline == i {
					longer[at.module] = time.Duration(float64(longer[at.module]) * by)
				}
			}
			return longer
		}
		low, high := 1.0, 1.0
		for range 10 {
			if high *= 2; p.DAG.Longest(with(high)) > p.Pipeline.SLO {
				break
			}
			low = high
		}
		for range 12 {
			if mid := (low + high) / 2; p.DAG.Longest(with(mid)) <= p.Pipeline.SLO {
				low = mid
			} else {
				high = mid
			}
		}
		out[i] = p.DAG.Stretch(with(low), p.Pipeline.SLO)
	}
	return out
}

// near is a split in the neighbourhood of another.
func (s *packer) near(from allBudgets, random *rand.Rand) allBudgets {
	to := make(allBudgets, len(from))
	for i, p := range s.problems {
		list := slices.Clone(from[i])
		for k := range list {
			list[k] = time.Duration(float64(list[k]) * math.Exp2(random.NormFloat64()*0.4))
		}
		if long := p.DAG.Longest(list); long > 0 {
			for k := range list {
				list[k] = plan.Scale(list[k], p.Pipeline.SLO, long)
			}
		}
		to[i] = p.DAG.Stretch(list, p.Pipeline.SLO)
	}
	return to
}

// within packs under given budgets: all modules divided by one rule, then each
// by another where that is cheaper. Nil when some module has no plan. Only sound
// packings count; with every module on devices of its own there is one wherever
// cost model whole has a plan.
func (s *packer) within(budgets allBudgets) *packing {
	var best *packing
	keep := func(p *packing) bool {
		if p != nil && (best == nil || plan.Cheaper(p.weight, best.weight)) && s.sound(p) {
			best = p
			return true
		}
		return false
	}
	for by := range divisions {
		if parts, ok := s.parts(budgets, by); ok {
			keep(s.packed(budgets, parts))
		}
	}
	for again := best != nil; again; {
		again = false
		for i := range best.parts {
			at := best.parts[i]
			for by := range divisions {
				other, ok := s.divide(at.pipeline, at.module, budgets[at.pipeline][at.module], by)
				if !ok {
					continue
				}
				parts := slices.Clone(best.parts)
				parts[i] = other
				again = keep(s.packed(budgets, parts)) || again
			}
		}
	}
	return best
}

// sound says whether single requests keep the packing. That is a question only
// where a module has devices of its own and a share of another.
func (s *packer) sound(p *packing) bool {
	divided := func(at assignment) bool { return len(at.dedicated) > 0 && at.residual > 0 }
	if !slices.ContainsFunc(p.parts, divided) {
		return true
	}
	for _, plan := range s.plans(p) {
		if !plan.Sound {
			s.rejected = true
			return false
		}
	}
	return true
}

func (s *packer) parts(budgets allBudgets, by division) ([]assignment, bool) {
	var parts []assignment
	for i, p := range s.problems {
		for k := range p.Modules {
			one, ok := s.divide(i, k, budgets[i][k], by)
			if !ok {
				if one, ok = s.divide(i, k, budgets[i][k], dedicated); !ok {
					return nil, false
				}
			}
			parts = append(parts, one)
		}
	}
	return parts, true
}

// packed is the cheapest packing of given parts over the kinds of devices that
// may be opened first.
func (s *packer) packed(budgets allBudgets, parts []assignment) *packing {
	own := 0.0
	for i := range parts {
		for k := range parts[i].dedicated {
			t := &parts[i].dedicated[k]
			own += t.Weight * t.Charged()
		}
	}
	var best *packing
	order := bySize(parts)
	try := func(only string, held []bin) {
		bins, ok := s.pack(parts, order, only, held)
		if !ok {
			return
		}
		p := &packing{budgets: budgets, parts: parts, bins: bins, weight: own}
		for i := range bins {
			p.weight += bins[i].cost()
		}
		if s.exist(p) && (best == nil || plan.Cheaper(p.weight, best.weight)) {
			best = p
		}
	}
	for k := -1; k < len(s.kinds); k++ {
		only := ""
		if k >= 0 {
			only = s.kinds[k].hardware
		}
		try(only, nil)
		if len(s.held) > 0 {
			try(only, s.held)
		}
	}
	return best
}

// exist says whether there are as many devices as the packing uses.
func (s *packer) exist(p *packing) bool {
	for _, h := range s.kinds {
		if h.count > 0 && used(h, p.bins, p.parts) > float64(h.count)*(1+plan.RateTolerance) {
			return false
		}
	}
	return true
}

// payable is the least sum of weights of whole devices that is at least the
// bound.
func (s *packer) payable(bound float64) float64 {
	const most = 64 // devices; with more of them little is gained
	if bound <= 0 || len(s.held) > 0 || len(s.kinds) == 0 || s.kinds[0].weight <= 0 || bound > most*s.kinds[0].weight {
		return bound
	}
	best := math.Inf(1)
	var visit func(i int, sum float64)
	visit = func(i int, sum float64) {
		if sum >= bound*(1-plan.OptimalityGap/10) {
			best = math.Min(best, sum)
			return
		}
		if i == len(s.kinds) || sum >= best {
			return
		}
		w := s.kinds[i].weight
		for n := math.Ceil((bound - sum) / w); n >= 0; n-- {
			visit(i+1, sum+n*w)
		}
	}
	visit(0, 0)
	return math.Max(bound, best)
}
