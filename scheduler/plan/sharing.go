package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// rounds is how many splits near the best one are tried.
const rounds = 60

// patience is how many of them may bring nothing.
const patience = 20

func newSharer(planners []*planner) *sharer {
	s := &sharer{planners: planners}
	for _, p := range planners {
		for _, m := range p.modules {
			for _, c := range m.configs {
				if !slices.ContainsFunc(s.hosts, func(h host) bool { return h.hardware == c.hardware }) {
					s.hosts = append(s.hosts, host{hardware: c.hardware, price: c.price, weight: c.weight, memory: c.room, count: c.count})
				}
			}
		}
	}
	slices.SortStableFunc(s.hosts, func(a, b host) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.hardware, b.hardware))
	})
	for i := range s.hosts {
		s.hosts[i].index = i
	}
	return s
}

// search looks for the cheapest packing and returns the lower bounds of the
// pipelines one by one, and of all of them together, in weights; nil when some
// pipeline has no split at all.
func (s *sharer) search() (best *packing, bounds []float64, bound float64) {
	starts, bounds, ok := s.starts()
	if !ok {
		return nil, nil, 0
	}
	for _, b := range bounds {
		bound += b
	}
	bound = s.payable(bound)
	done := func() bool { return best != nil && best.weight <= bound*(1+optimalityGap) }
	try := func(b splitting) bool {
		p := s.within(b)
		if p == nil || best != nil && !cheaper(p.weight, best.weight) {
			return false
		}
		best = p
		return true
	}
	for _, b := range starts {
		if !done() {
			try(b)
		}
	}
	if best == nil {
		return nil, nil, 0
	}
	watch := s.planners[0].options.stopwatch()
	random := rand.New(rand.NewPCG(1, 2)) // the same problem has the same plan
	for n, last := 0, 0; n < rounds && n-last < patience && !done(); n++ {
		if limit := s.planners[0].options.TimeLimit; limit > 0 && watch() > limit {
			break
		}
		if try(s.near(best.budgets, random)) {
			last = n
		}
	}
	return best, bounds, bound
}

// starts are the splits to begin with, every pipeline's in its own way: the
// proportional optimum, which uses least of the devices; that for whole
// devices; and the paper's.
func (s *sharer) starts() (list []splitting, bounds []float64, ok bool) {
	list = make([]splitting, 3)
	bounds = make([]float64, len(s.planners))
	for i, p := range s.planners {
		proportional, bound, ok := p.exactShares()
		if !ok {
			return nil, nil, false
		}
		bounds[i] = bound
		whole, _, ok := p.exactWhole()
		if !ok {
			return nil, nil, false
		}
		paper, ok := p.paper()
		if !ok {
			paper = whole
		}
		for k, split := range [][]time.Duration{proportional, whole, paper} {
			list[k] = append(list[k], p.dag.stretch(split, p.pipe.SLO))
		}
	}
	return list, bounds, true
}

// near is a split in the neighbourhood of another.
func (s *sharer) near(from splitting, random *rand.Rand) splitting {
	to := make(splitting, len(from))
	for i, p := range s.planners {
		list := slices.Clone(from[i])
		for k := range list {
			list[k] = time.Duration(float64(list[k]) * math.Exp2(random.NormFloat64()*0.4))
		}
		if long := p.dag.longest(list); long > 0 {
			for k := range list {
				list[k] = scale(list[k], p.pipe.SLO, long)
			}
		}
		to[i] = p.dag.stretch(list, p.pipe.SLO)
	}
	return to
}

// within packs under given budgets: all modules divided by one rule, then each
// by another where that is cheaper. Nil when some module has no plan.
func (s *sharer) within(budgets splitting) *packing {
	var best *packing
	keep := func(p *packing) bool {
		if p != nil && (best == nil || cheaper(p.weight, best.weight)) {
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

func (s *sharer) parts(budgets splitting, by division) ([]part, bool) {
	var parts []part
	for i, p := range s.planners {
		for k := range p.modules {
			one, ok := s.divide(i, k, budgets[i][k], by)
			if !ok {
				if one, ok = s.divide(i, k, budgets[i][k], owned); !ok {
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
func (s *sharer) packed(budgets splitting, parts []part) *packing {
	own := 0.0
	for i := range parts {
		for k := range parts[i].own {
			t := &parts[i].own[k]
			own += t.weight * t.charged()
		}
	}
	var best *packing
	order := bySize(parts)
	for k := -1; k < len(s.hosts); k++ {
		only := ""
		if k >= 0 {
			only = s.hosts[k].hardware
		}
		bins, ok := s.pack(parts, order, only)
		if !ok {
			return nil
		}
		p := &packing{budgets: budgets, parts: parts, bins: bins, weight: own}
		for i := range bins {
			p.weight += bins[i].host.weight
		}
		if !s.exist(p) {
			continue
		}
		if best == nil || cheaper(p.weight, best.weight) {
			best = p
		}
	}
	return best
}

// exist says whether there are as many devices as the packing uses.
func (s *sharer) exist(p *packing) bool {
	for _, h := range s.hosts {
		if h.count > 0 && used(h, p.bins, p.parts) > float64(h.count)*(1+rateTolerance) {
			return false
		}
	}
	return true
}

// payable is the least sum of weights of whole devices that is at least the
// bound.
func (s *sharer) payable(bound float64) float64 {
	const most = 64 // devices; with more of them little is gained
	if bound <= 0 || len(s.hosts) == 0 || s.hosts[0].weight <= 0 || bound > most*s.hosts[0].weight {
		return bound
	}
	best := math.Inf(1)
	var visit func(i int, sum float64)
	visit = func(i int, sum float64) {
		if sum >= bound*(1-optimalityGap/10) {
			best = math.Min(best, sum)
			return
		}
		if i == len(s.hosts) || sum >= best {
			return
		}
		w := s.hosts[i].weight
		for n := math.Ceil((bound - sum) / w); n >= 0; n-- {
			visit(i+1, sum+n*w)
		}
	}
	visit(0, 0)
	return math.Max(bound, best)
}
