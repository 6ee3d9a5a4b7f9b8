package exact

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

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
				shortest = math.Min(shortest, m.Fastest().Seconds())
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
	b.RunRoot()
	return b.Found, b.Found != nil
}

// near is a split in the neighbourhood of another.
func (s *packer) near(from allBudgets, spread float64, random *rand.Rand) allBudgets {
	to := make(allBudgets, len(from))
	for i, p := range s.problems {
		list := slices.Clone(from[i])
		for k := range list {
			list[k] = time.Duration(float64(list[k]) * math.Exp2(random.NormFloat64()*spread))
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

// The budgets of a packing for more load, or for a tighter objective, do for less: the
// same devices run the same batches, no oftener. A search that is
// heuristic may find it for more and miss it for less, so the search for a problem
// also takes what searches for stricter ones find. These are those on grids of rates
// and objectives that do not depend on the problem: two problems that are not far
// apart look at the same ones.
const gridStep = 64 // of the finest grid, in parts of a factor of two

// strictness is a grid of rates and one of objectives, in steps of the finest; 0 for
// the problem's own.
type strictness struct{ rate, slo int }

// grids are what is looked at.
func grids() [8]strictness {
	return [...]strictness{{1, 0}, {0, 1}, {1, 1}, {4, 4}, {8, 0}, {0, 8}, {16, 16}, {64, 64}}
}

// up is the next rate on a grid.
func up(rate float64, steps int) float64 {
	if steps == 0 || rate <= 0 {
		return rate
	}
	at := gridStep / float64(steps)
	return math.Max(rate, math.Exp2(math.Ceil(math.Log2(rate)*at)/at))
}

// down is the objective before on a grid.
func down(slo time.Duration, steps int) time.Duration {
	if steps == 0 {
		return slo
	}
	at := gridStep / float64(steps)
	return min(slo, plan.WholeNanoseconds(math.Exp2(math.Floor(math.Log2(slo.Seconds())*at)/at)))
}

// stricter is the problem on a grid; false where it is the same.
func (p *problem) stricter(by strictness) (*problem, bool) {
	declared := *p.declared.Pipeline
	rate, slo := up(declared.Rate, by.rate), down(declared.SLO, by.slo)
	less := declared.SLO - slo
	factor := 1.0
	if declared.Rate > 0 {
		factor = rate / declared.Rate
	}
	pipe := *p.Pipeline
	if pipe.SLO -= less; pipe.SLO <= 0 {
		return nil, false
	}
	ready := *p.Prepared
	ready.Pipeline, ready.Modules = &pipe, slices.Clone(ready.Modules)
	pipe.Rate *= factor
	pipe.Modules = slices.Clone(pipe.Modules)
	for i := range pipe.Modules {
		pipe.Modules[i].Rate *= factor
	}
	for i, m := range ready.Modules {
		more := *m
		more.Rate *= factor
		ready.Modules[i] = &more
	}
	out := &problem{Prepared: &ready, declared: &ready, steps: make([]colocated, len(ready.Modules)), start: p.start}
	out.own = newWhole(&ready)
	if out.checkPath() != nil {
		return nil, false
	}
	return out, factor > 1 || less > 0
}

// fromStricter looks for a packing that is cheaper among those of stricter problems,
// unless the best one costs no more than the bound.
func (s *packer) fromStricter(best *packing, bound float64) *packing {
	for _, by := range grids() {
		if best.weight <= bound*(1+plan.OptimalityGap) || s.halted() {
			break
		}
		problems, differ := make([]*problem, len(s.problems)), false
		for i, p := range s.problems {
			one, other := p.stricter(by)
			if one == nil {
				problems = nil
				break
			}
			problems[i], differ = one, differ || other
		}
		if problems == nil || !differ {
			continue
		}
		if found := s.packStricter(problems, best.weight); found != nil {
			best = found
		}
	}
	return best
}

// packStricter is the packing under the budgets that a search for stricter problems finds,
// where it costs less.
func (s *packer) packStricter(stricter []*problem, than float64) *packing {
	other := newPacker(stricter)
	found := other.cheaper(than)
	s.work += other.work
	if found == nil {
		return nil
	}
	budgets := make(allBudgets, len(s.problems))
	for i, one := range s.problems {
		budgets[i] = one.DAG.Stretch(found.budgets[i], one.Pipeline.SLO)
	}
	if p := s.under(budgets); p != nil && plan.Cheaper(p.weight, than) {
		return p
	}
	return nil
}

// cheaper is the first packing that costs less than that, from the splits to begin
// with; nil where none does.
func (s *packer) cheaper(than float64) *packing {
	fluid := 0.0
	for _, p := range s.problems {
		_, bound, ok := p.searchProportional()
		if !ok {
			return nil
		}
		fluid += bound
	}
	if !plan.Cheaper(fluid, than) {
		return nil
	}
	starts, _, ok := s.starts()
	if !ok {
		return nil
	}
	var best *packing
	for _, b := range starts {
		if p := s.within(b); p != nil && plan.Cheaper(p.weight, than) {
			best, than = p, p.weight
		}
	}
	return best
}
