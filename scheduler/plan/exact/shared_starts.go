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
