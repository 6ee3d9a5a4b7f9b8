package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// maxMixtures bounds the mixtures of one module that are looked at, and maxCounted
// the numbers of devices that are tried for them: of devices by the million there
// are too many to count one by one. maxSteps bounds both for all modules of a plan
// together: about two seconds, enough for a dozen modules whatever they are. Bounding a
// mixture takes as long as boundSteps numbers. Every stepsPerLook the search looks whether
// it must end.
const (
	maxMixtures  = 3000
	maxCounted   = 1 << 18
	maxSteps     = 1 << 27
	boundSteps   = 1 << 9
	stepsPerLook = 1 << 12
)

// steps are those that are left of a plan's.
type steps struct {
	left  int
	ended func() bool // the search must end with what it has
}

// take counts some steps, and says whether there were any left.
func (s *steps) take(n int) bool {
	if before := s.left; s.left > 0 {
		if s.left -= n; before/stepsPerLook != s.left/stepsPerLook && s.ended() {
			s.left = 0
		}
	}
	return s.left > 0
}

// enumerate lists the mixtures of several kinds that cost at most limit and can
// serve the module within budget, cheapest first. Where there are too many the
// limit is lowered, so that none below it is missing.
func (w *wholeModule) enumerate(limit float64, budget time.Duration) {
	w.mixtures, w.limit = nil, limit
	if len(w.kinds) < 2 || w.Rate == 0 {
		return
	}
	e := enumerator{w: w, shares: make([]float64, len(w.kinds)), counts: make([]int, len(w.kinds))}
	e.cheapest = make([]float64, len(w.kinds)+1)
	e.cheapest[len(w.kinds)] = math.Inf(1)
	for i, k := range slices.Backward(w.kinds) {
		e.shares[i], e.cheapest[i] = k.serves(w.ModuleProblem, budget.Seconds()), e.cheapest[i+1]
		if e.shares[i] > 0 {
			e.cheapest[i] = math.Min(e.cheapest[i], k.weight/e.shares[i])
		}
	}
	least := e.cheapest[0]
	for range 40 {
		e.found, e.limit, e.full, e.visits = nil, w.limit, false, 0
		e.visit(0, 0, 0)
		if !e.full {
			break
		}
		w.limit = (w.limit + least) / 2
	}
	if e.full {
		e.found, w.limit = nil, least
	}
	for _, m := range e.found {
		if !w.steps.take(boundSteps) { // no mixture below the limit may be missing
			w.mixtures, w.limit = nil, least
			return
		}
		if least, ok := w.bound(m.counts); ok {
			m.least = least
			w.mixtures = append(w.mixtures, m)
		}
	}
	slices.SortStableFunc(w.mixtures, func(a, b *mixture) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.least, b.least))
	})
}

// enumerator walks the numbers of devices kind by kind.
type enumerator struct {
	w        *wholeModule
	shares   []float64 // of the stream, that one device of a kind serves at best
	cheapest []float64 // the least weight of serving the whole stream with kinds from one on, in fractions of devices
	limit    float64
	counts   []int
	found    []*mixture
	visits   int
	full     bool
}

func (e *enumerator) visit(i int, weight, covered float64) {
	if e.visits++; e.visits > maxCounted || !e.w.steps.take(1) {
		e.full = true
	}
	if e.full {
		return
	}
	if covered >= 1-plan.RateTolerance {
		e.add(weight)
	}
	if i == len(e.counts) {
		return
	}
	if rest := 1 - covered; rest > 0 && weight+rest*e.cheapest[i] > e.limit*(1+plan.CostTolerance) {
		return
	}
	// Kinds before i are fixed; the first further device is of kind k >= i.
	for k := i; k < len(e.counts); k++ {
		kind := &e.w.kinds[k]
		if kind.count == 0 && kind.weight == 0 {
			continue // as many as you like for nothing need no other kind
		}
		for n := 1; kind.count == 0 || n <= kind.count; n++ {
			more := weight + float64(n)*kind.weight
			if more > e.limit*(1+plan.CostTolerance) || e.full {
				break
			}
			e.counts[k] = n
			e.visit(k+1, more, covered+float64(n)*e.shares[k])
		}
		e.counts[k] = 0
	}
}

func (e *enumerator) add(weight float64) {
	used := 0
	for _, n := range e.counts {
		if n > 0 {
			used++
		}
	}
	if used < 2 {
		return
	}
	if len(e.found) >= maxMixtures {
		e.full = true
		return
	}
	e.found = append(e.found, &mixture{counts: slices.Clone(e.counts), weight: weight})
}
