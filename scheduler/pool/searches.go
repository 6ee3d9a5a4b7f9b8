package pool

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// Search is a search for the configuration of the highest goodput under way. Every search
// leaves out what one that was evaluated contains (sub-configurations, Algorithm 1), as
// the paper lets all of them do.
type Search struct {
	Rand *rand.Rand

	*solver
	left    []configuration // that are neither evaluated nor left out
	tried   []configuration // with what they reach, in the order of evaluation
	best    int             // place in tried
	most    int             // evaluations
	foundAt int             // evaluation that found the best
	enough  float64         // goodput at which it ends; 0 for never
	known   map[string]float64
}

func (s *solver) newSearch(all []configuration) *Search {
	most := s.options.Simulations
	if most == 0 {
		most = len(all)
	}
	return &Search{Rand: rand.New(rand.NewPCG(s.options.Seed, 3)), solver: s, left: slices.Clone(all), most: most, known: map[string]float64{}}
}

// Done reports that enough was found, or nothing is left to evaluate, or nothing may be.
func (h *Search) Done() bool {
	enough := h.enough > 0 && len(h.tried) > 0 && h.tried[h.best].rate >= h.enough
	return enough || len(h.left) == 0 || len(h.tried) >= h.most || h.err != nil || len(h.tried) > 0 && h.stopped()
}

// Evaluate finds the goodput of number i of those left, and leaves out what it contains.
func (h *Search) Evaluate(i int) float64 {
	c := configuration{counts: h.left[i].counts}
	key := fmt.Sprint(c.counts)
	rate, known := h.known[key]
	if !known {
		rate = h.goodput(c.counts, h.load, 0)
		h.known[key] = rate
	}
	c.rate = rate
	h.tried = append(h.tried, c)
	if len(h.tried) == 1 || c.rate > h.tried[h.best].rate {
		h.best, h.foundAt = len(h.tried)-1, len(h.tried)
	}
	h.left = slices.DeleteFunc(h.left, func(other configuration) bool { return contains(c.counts, other.counts) })
	return c.rate
}

// contains reports whether a configuration has at least as many instances of every kind.
func contains(whole, part []int) bool {
	for g, n := range part {
		if n > whole[g] {
			return false
		}
	}
	return true
}

// KairosPlus is Algorithm 1: the configuration of the highest estimate is evaluated;
// then everything goes whose estimate is no more than the best goodput so far. The
// estimates must be in falling order. As they are no bounds (see Estimate), neither is
// the result proven to be the best.
func (h *Search) KairosPlus() {
	for !h.Done() {
		h.Evaluate(0)
		best := h.tried[h.best].rate
		h.left = slices.DeleteFunc(h.left, func(c configuration) bool { return c.rate <= best })
	}
}

// Left are the configurations that are neither evaluated nor left out.
func (h *Search) Left() [][]int {
	all := make([][]int, len(h.left))
	for i, c := range h.left {
		all[i] = c.counts
	}
	return all
}

// Tried are those that were evaluated, in order.
func (h *Search) Tried() []Evaluated {
	all := make([]Evaluated, len(h.tried))
	for i, c := range h.tried {
		all[i] = Evaluated{c.counts, c.rate}
	}
	return all
}

// kairosPlus runs the paper's search to its end and takes what it found.
func (s *solver) kairosPlus(plan *Plan, all []configuration) error {
	h := s.newSearch(all)
	h.KairosPlus()
	if s.err != nil || len(h.tried) == 0 {
		return s.err
	}
	plan.Simulated, plan.FoundAt = len(h.tried), h.foundAt
	s.describe(plan, h.tried[h.best].counts, h.tried[h.best].rate)
	plan.UpperBound = s.estimate(h.tried[h.best].counts)
	return nil
}

// Evaluated is a configuration that a search evaluated, with what it reaches.
type Evaluated struct {
	Counts  []int
	Goodput float64
}

// Evaluate is what a search evaluates, in that order, until it has a
// configuration that reaches enough; 0 for to its end. Configurations that another
// search of the study has evaluated are not simulated again.
func (s *Study) Evaluate(search func(*Search), seed uint64, enough float64) []Evaluated {
	one := *s.solver
	one.options.Seed = seed
	all := slices.Clone(s.all)
	one.kairosChoice(all) // ranks them by their estimates
	h := one.newSearch(all)
	h.known, h.enough = s.known, enough
	search(h)
	return h.Tried()
}

// Estimated is a configuration with the paper's estimate of what it reaches, and what it
// does.
type Estimated struct {
	Evaluated
	Estimate float64
}

// Top evaluates the configurations of the highest estimates.
func (s *Study) Top(n int) []Estimated {
	all := slices.Clone(s.all)
	s.solver.kairosChoice(all)
	h := s.solver.newSearch(nil)
	h.known = s.known
	var top []Estimated
	for _, c := range all[:min(n, len(all))] {
		h.left = []configuration{c}
		top = append(top, Estimated{Evaluated{c.counts, h.Evaluate(0)}, c.rate})
	}
	return top
}

// Study is a problem with the queries that its policies try configurations
// with, for experiments that compare other distributors on the same.
type Study struct {
	Load   TrialLoad
	Search TrialSearch

	// Matching are the options of the paper's distributor with the
	// coefficients of the paper.
	Matching matching.Options

	solver *solver
	known  map[string]float64 // goodput by configuration, as Evaluate found
	all    []configuration
	choice []int
}

// NewStudy draws the queries of the problem.
func NewStudy(p Problem, o Options) (*Study, error) {
	s, err := newSolver(p, o.complete())
	if err != nil {
		return nil, err
	}
	all, err := s.configurations()
	if err != nil {
		return nil, err
	}
	choice := s.kairosChoice(all).counts
	s.draw(all[0].rate)
	for i := range all {
		all[i].rate = s.bound(all[i].counts, s.load)
	}
	s.rank(all)
	m := matching.Options{Base: int32(s.base), SLO: s.slo, Largest: int32(s.sizes[len(s.sizes)-1])}
	for _, k := range s.kinds {
		m.Types = append(m.Types, matching.InstanceType{Name: k.name, Latency: k.latency})
	}
	return &Study{Load: s.load, Search: s.search, Matching: m, solver: s, known: map[string]float64{}, all: all, choice: choice}, nil
}

// Configurations are all instances within the budget, by kind of hardware, those
// of the highest bound first.
func (s *Study) Configurations() [][]int {
	list := make([][]int, len(s.all))
	for i, c := range s.all {
		list[i] = c.counts
	}
	return list
}

// Choice is the configuration of the paper's rule.
func (s *Study) Choice() []int { return s.choice }

// Trial is a configuration to be tried.
func (s *Study) Trial(counts []int) TrialPool { return s.solver.trial(counts) }

// Bound is the rate that no distributor exceeds on a configuration. It is safe for
// concurrent use.
func (s *Study) Bound(counts []int) float64 { return s.solver.bound(counts, s.solver.load) }
