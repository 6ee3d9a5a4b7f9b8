package pool

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Dispatches lists the ways to distribute queries that Simulate knows, the default
// first.
func Dispatches() []string { return pipelines.Dispatches(pipelines.KindPool) }

// SimulateOptions say how to simulate queries against a plan.
type SimulateOptions struct {
	Dispatch string        // one of Dispatches; empty means the first
	Arrivals string        // as of a pool; empty means those of the pool
	Rate     float64       // queries per second
	Duration time.Duration // how long queries come
	Seed     uint64
	Noise    float64 // coefficient of variation of the time of a query

	// Record, where given, makes what keeps the steps of the dispatcher.
	Record func(station string) *recording.Recorder
}

// Simulate plays queries against the instances of a plan.
func Simulate(p Problem, plan Plan, o SimulateOptions) (simulate.Result, error) {
	s, counts, err := playable(p, plan, &o)
	if err != nil {
		return simulate.Result{}, err
	}
	pool := s.trial(counts)
	pool.Noise = o.Noise
	n := o.Rate * o.Duration.Seconds()
	if !(n >= 0) || n > maxQueries {
		return simulate.Result{}, fmt.Errorf("%.4g queries a second for %v are more than the %d that a simulation of a pool plays: take a shorter --duration", o.Rate, o.Duration, maxQueries)
	}
	if n < 1 {
		return simulate.Result{Pipelines: []simulate.PipelineResult{{Rate: o.Rate, Attainment: 1}}}, nil
	}
	load := Draw(s.mix, int(math.Round(n)), s.arrivals, o.Seed)
	spec := s.matching(counts)
	if slices.Contains(matching.BaselineNames(), o.Dispatch) {
		if spec, err = s.baseline(o.Dispatch, counts); err != nil {
			return simulate.Result{}, err
		}
	}
	return runTrial(pool, made(spec), load, o.Rate, simulate.Options{Record: o.Record, Spec: spec})
}

// playable checks the options and finds the instances of the plan.
func playable(p Problem, plan Plan, o *SimulateOptions) (*solver, []int, error) {
	if o.Dispatch == "" {
		o.Dispatch = Dispatches()[0]
	}
	if !slices.Contains(Dispatches(), o.Dispatch) {
		return nil, nil, fmt.Errorf("there is no way %q to distribute the queries of a pool; choose one of %s", o.Dispatch, strings.Join(Dispatches(), ", "))
	}
	if o.Arrivals != "" {
		p.Pool.Arrivals = o.Arrivals
	}
	s, err := newSolver(p, Options{}.complete())
	if err != nil {
		return nil, nil, err
	}
	counts := make([]int, len(s.kinds))
	for g, k := range s.kinds {
		counts[g] = plan.Instances[k.name]
	}
	return s, counts, nil
}

// climbQueries is how many queries the threshold of drs is looked for with.
const climbQueries = 2000

// baseline says how to make the distributor of that name. The threshold of drs is found as
// DeepRecSys finds it, by climbing.
func (s *solver) baseline(name string, counts []int) (factory.Spec, error) {
	p, largest, threshold := s.trial(counts), s.sizes[len(s.sizes)-1], 0
	if name == matching.Threshold {
		s.draw(1)
		load := Draw(s.mix, climbQueries, s.arrivals, s.options.Seed)
		var err error
		if threshold, _, err = s.search.HillClimb(p, load, largest, s.bound(counts, load)*(1+s.search.Tolerance)); err != nil {
			return factory.Spec{}, err
		}
	}
	o := p.Baseline(name, largest, threshold)
	return factory.Spec{Baseline: &o}, nil
}
