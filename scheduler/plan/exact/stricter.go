package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

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
		if found := s.relieved(problems, best.weight); found != nil {
			best = found
		}
	}
	return best
}

// relieved is the packing under the budgets that a search for stricter problems finds,
// where it costs less.
func (s *packer) relieved(stricter []*problem, than float64) *packing {
	other := newPacker(stricter)
	other.withMargin = s.withMargin
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
