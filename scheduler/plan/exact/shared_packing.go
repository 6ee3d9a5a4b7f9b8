package exact

import (
	"cmp"
	"fmt"
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

// division is divide with a cache.
func (s *packer) division(budgets allBudgets, pipeline, module int, by division) (assignment, bool) {
	at := module
	for _, p := range s.problems[:pipeline] {
		at += len(p.Modules)
	}
	d := &s.divided[at*int(divisions)+int(by)]
	if !d.known {
		d.known = true
		d.part, d.ok = s.divide(pipeline, module, budgets[pipeline][module], by)
		if s.problems[pipeline].phased() {
			d.part.offset = s.problems[pipeline].offset(budgets[pipeline], module)
		}
	}
	return d.part, d.ok
}

// sound reports whether single requests keep the packing. That is a question only
// where a module has devices of its own and a share of another.
func (s *packer) sound(p *packing) bool {
	both := func(at assignment) bool { return len(at.dedicated) > 0 && at.residual > 0 }
	if !slices.ContainsFunc(p.parts, both) {
		return true
	}
	for _, plan := range s.plans(p) {
		if !plan.Sound {
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

// exist reports whether there are as many devices as the packing uses.
func (s *packer) exist(p *packing) bool {
	for _, h := range s.kinds {
		if h.count > 0 && used(h, p.bins, p.parts) > float64(h.count)*(1+plan.RateTolerance) {
			return false
		}
	}
	return true
}

// pack puts the residual rates of modules onto shared devices: by falling size, into
// the open device where it uses least before a new one is opened; then emptying
// devices as long as their parts find room elsewhere, and trading devices for
// cheaper kinds. only, where it is not empty, is the kind that is opened as
// long as a part can run on it. ok is false when one fits nowhere.
// held are devices of others that are open already; those that nothing is put on
// are left out in the end.
func (s *packer) pack(parts []assignment, order []int, only string, held []bin) (bins []bin, ok bool) {
	bins = slices.Clone(held)
	for _, i := range order {
		if parts[i].residual == 0 {
			continue
		}
		if !s.insert(bins, parts, i, -1) {
			b, ok := s.open(bins, parts, i, only)
			if !ok {
				return nil, false
			}
			bins = append(bins, b)
		}
	}
	bins = slices.DeleteFunc(bins, func(b bin) bool { return len(b.parts) == 0 })
	bins = s.closeDevices(bins, parts)
	for i := range bins {
		s.useCheaperKind(bins, i, parts)
	}
	return bins, true
}

// bySize orders the modules whose residual rate costs most first.
func bySize(parts []assignment) []int {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(parts[b].size, parts[a].size) })
	return order
}

// insert puts a residual rate into the open device where it adds least; except is a
// device that is left out.
func (s *packer) insert(bins []bin, parts []assignment, i, except int) bool {
	at, best, least := -1, bin{}, math.Inf(1)
	for k := range bins {
		if k == except || bins[k].total() >= 1 && len(parts[i].branch) == 0 {
			continue
		}
		b, ok := s.arranged(bins[k].kind, bins[k].held, with(bins[k].parts, i), parts)
		if ok && b.use-bins[k].use < least {
			at, best, least = k, b, b.use-bins[k].use
		}
	}
	if at < 0 {
		return false
	}
	bins[at] = best
	return true
}

// open starts a new device for a residual rate: the cheapest that can run it.
func (s *packer) open(bins []bin, parts []assignment, i int, only string) (best bin, ok bool) {
	for _, h := range s.kinds {
		if !s.exists(h, bins, parts) {
			continue
		}
		if ok && (best.kind.hardware == only || h.hardware != only && h.weight >= best.kind.weight) {
			continue
		}
		if b, fits := s.arranged(h, nil, []int{i}, parts); fits {
			best, ok = b, true
		}
	}
	return best, ok
}

// with is a sorted set of parts with one more.
func with(parts []int, i int) []int {
	at, _ := slices.BinarySearch(parts, i)
	return slices.Insert(slices.Clip(slices.Clone(parts)), at, i)
}

// arrangement is what arrange found for some parts on a device.
type arrangement struct {
	bin bin
	ok  bool
}

// arranged is arrange, looked up where the same parts were arranged before.
func (s *packer) arranged(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment) (bin, bool) {
	key := append(s.key[:0], byte(h.index))
	if held != nil {
		key = fmt.Appendf(key, "%p", held)
	}
	for _, i := range members {
		key = append(key, byte(i), byte(i>>8), byte(parts[i].by), byte(parts[i].by>>8))
	}
	s.key = key
	found, known := s.arrangements[string(key)]
	if !known {
		found.bin, found.ok = arrange(h, held, members, parts)
		for _, i := range members {
			s.work += mostDeadlines * len(parts[i].choices[h.index])
		}
		if s.arrangements != nil {
			s.arrangements[string(key)] = found
		}
	}
	return found.bin, found.ok
}

// closeDevices closes devices whose parts all fit elsewhere, least used first.
func (s *packer) closeDevices(bins []bin, parts []assignment) []bin {
	for {
		order := make([]int, len(bins))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bins[a].use, bins[b].use) })
		closed := false
		for _, k := range order {
			trial := slices.Clone(bins)
			all := true
			for _, i := range bins[k].parts {
				all = all && s.insert(trial, parts, i, k)
			}
			if all {
				bins, closed = slices.Delete(trial, k, k+1), true
				break
			}
		}
		if !closed {
			return bins
		}
	}
}

// useCheaperKind moves all parts of a device to a cheaper kind that can run them.
func (s *packer) useCheaperKind(bins []bin, at int, parts []assignment) {
	for _, h := range s.kinds {
		if bins[at].held == nil && plan.Cheaper(h.weight, bins[at].kind.weight) && s.exists(h, bins, parts) {
			if other, ok := s.arranged(h, nil, bins[at].parts, parts); ok {
				bins[at] = other
			}
		}
	}
}

// exists reports whether there is one more device of a kind.
func (s *packer) exists(h sharedKind, bins []bin, parts []assignment) bool {
	return h.count == 0 || used(h, bins, parts)+1 <= float64(h.count)*(1+plan.RateTolerance)
}

// used is the number of devices of a kind in use, shared or not.
func used(h sharedKind, bins []bin, parts []assignment) float64 {
	n := 0.0
	for i := range parts {
		for k := range parts[i].dedicated {
			if t := &parts[i].dedicated[k]; t.Hardware == h.hardware {
				n += t.Charged()
			}
		}
	}
	for i := range bins {
		if bins[i].held == nil && bins[i].kind.hardware == h.hardware {
			n++
		}
	}
	return n
}

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
