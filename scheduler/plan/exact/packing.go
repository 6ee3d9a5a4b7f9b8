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
	s.forget()
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
	if parts, ok := s.least(budgets); ok {
		keep(s.packed(budgets, parts))
	}
	for again := best != nil; again; {
		again = false
		for i := range best.parts {
			at := best.parts[i]
			for by := range divisions {
				other, ok := s.division(budgets, at.pipeline, at.module, by)
				if !ok || at.by == by {
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

// forget drops what was found under other budgets.
func (s *packer) forget() {
	n := 0
	for _, p := range s.problems {
		n += len(p.Modules)
	}
	s.work += perLook * n
	s.divided, s.arrangements = make([]divided, n*int(divisions)), map[string]arrangement{}
}

// divided is what divide made of a module.
type divided struct {
	part      assignment
	known, ok bool
}

// division is divide, looked up where it was asked before.
func (s *packer) division(budgets allBudgets, pipeline, module int, by division) (assignment, bool) {
	at := module
	for _, p := range s.problems[:pipeline] {
		at += len(p.Modules)
	}
	d := &s.divided[at*int(divisions)+int(by)]
	if !d.known {
		d.known = true
		d.part, d.ok = s.divide(pipeline, module, budgets[pipeline][module], by)
	}
	return d.part, d.ok
}

// sound says whether single requests keep the packing. That is a question only
// where a module has devices of its own and a share of another.
func (s *packer) sound(p *packing) bool {
	both := func(at assignment) bool { return len(at.dedicated) > 0 && at.residual > 0 }
	if !slices.ContainsFunc(p.parts, both) {
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
			one, ok := s.division(budgets, i, k, by)
			if !ok {
				if one, ok = s.division(budgets, i, k, dedicated); !ok {
					return nil, false
				}
			}
			parts = append(parts, one)
		}
	}
	return parts, true
}

// least divides each module by the rule that uses least: weight of devices of its own,
// and what the rest uses of a shared one.
func (s *packer) least(budgets allBudgets) (parts []assignment, ok bool) {
	for i, p := range s.problems {
		for k := range p.Modules {
			best, least := assignment{}, math.Inf(1)
			for by := divisions - 1; by >= 0; by-- {
				if one, ok := s.division(budgets, i, k, by); ok && plan.Cheaper(one.uses(), least) {
					best, least = one, one.uses()
				}
			}
			if math.IsInf(least, 1) {
				return nil, false
			}
			parts = append(parts, best)
		}
	}
	return parts, true
}

// packed is the cheapest packing of given parts over the kinds of devices that
// may be opened first.
func (s *packer) packed(budgets allBudgets, parts []assignment) *packing {
	own := 0.0
	for i := range parts {
		own += parts[i].owns()
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
	first := -1
	if len(s.kinds) == 1 {
		first = 0
	}
	for k := first; k < len(s.kinds); k++ {
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
