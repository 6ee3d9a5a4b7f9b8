package exact

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

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
