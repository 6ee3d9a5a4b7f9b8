package pool

import (
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

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

// Bound is what no distributor exceeds on a configuration. It may be asked from many
// goroutines at a time.
func (s *Study) Bound(counts []int) float64 { return s.solver.bound(counts, s.solver.load) }
