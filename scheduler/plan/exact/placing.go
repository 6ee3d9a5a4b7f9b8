package exact

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// placeSteps bounds one enumeration of placings: parts put on a device.
const placeSteps = 300

// under is the cheapest packing found under given budgets: that of within, or one that
// putting the parts on devices in every way finds, also with other numbers of full
// devices of their own.
func (s *packer) under(budgets allBudgets) *packing {
	best := s.within(budgets)
	for again := best != nil && len(s.held) == 0; again; {
		again = false
		if p := s.placed(best, best.parts); p != nil {
			best, again = p, true
			continue
		}
		for k, at := range best.parts {
			for _, other := range s.otherwise(at) {
				parts := slices.Clone(best.parts)
				parts[k] = other
				if p := s.placed(best, parts); p != nil {
					best, again = p, true
					break
				}
			}
		}
	}
	return best
}

// otherwise lists the part with other devices of its own that cost less than what it uses.
func (s *packer) otherwise(at assignment) (list []assignment) {
	if other, ok := s.sharing(at, at.budget); ok {
		other.by = divisions // arrangements are looked up by it
		list = append(list, other)
	}
	for _, one := range s.fewer(&at) {
		if one.by.Duration+plan.ToDuration(one.by.Interval()/one.full) > at.budget {
			continue
		}
		if other, ok := s.dividedBy(at, *one.by, one.full); ok {
			other.by = divisions + 1 + division(one.id)
			list = append(list, other)
		}
	}
	return list
}

// placing puts parts on devices in every way.
type placing struct {
	s      *packer
	parts  []assignment
	order  []int // of parts that share, by falling size
	bins   []bin
	weight float64 // of what is there
	least  float64 // of the cheapest
	best   []bin
	steps  int
}

// placed is the cheapest packing of parts found that costs less than the best one.
func (s *packer) placed(best *packing, parts []assignment) *packing {
	e := &placing{s: s, parts: parts, least: best.weight, steps: placeSteps}
	size := 0.0
	for _, i := range bySize(parts) {
		e.weight += parts[i].owns()
		if parts[i].residual > 0 {
			e.order, size = append(e.order, i), size+parts[i].size
		}
	}
	if !plan.Cheaper(e.weight+size, best.weight) {
		return nil
	}
	e.visit(0)
	if e.best == nil {
		return nil
	}
	p := &packing{budgets: best.budgets, parts: parts, bins: e.best, weight: e.least}
	if !s.exist(p) || !s.sound(p) {
		return nil
	}
	return p
}

// visit puts the parts from i on in the order.
func (e *placing) visit(i int) {
	if e.steps--; e.steps < 0 || e.s.halted() {
		return
	}
	if i == len(e.order) {
		e.least, e.best = e.weight, slices.Clone(e.bins)
		return
	}
	for k := range e.bins {
		was := e.bins[k]
		if b, ok := e.s.arranged(was.kind, nil, with(was.parts, e.order[i]), e.parts); ok {
			e.bins[k] = b
			e.visit(i + 1)
			e.bins[k] = was
		}
	}
	for _, h := range e.s.kinds {
		if !plan.Cheaper(e.weight+h.weight, e.least) {
			continue
		}
		if b, ok := e.s.arranged(h, nil, []int{e.order[i]}, e.parts); ok {
			e.bins, e.weight = append(e.bins, b), e.weight+h.weight
			e.visit(i + 1)
			e.bins, e.weight = e.bins[:len(e.bins)-1], e.weight-h.weight
		}
	}
}
