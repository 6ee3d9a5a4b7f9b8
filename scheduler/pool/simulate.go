package pool

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Dispatches lists the policies of distribution that Simulate accepts, the default first.
func Dispatches() []string { return pipelines.Dispatches(pipelines.KindPool) }

// SimulateOptions of a simulation of queries against a plan.
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
	return runTrial(pool, made(spec), load, o.Rate, simulate.Options{Record: o.Record, Spec: spec})
}

// playable checks the options and finds the instances of the plan.
func playable(p Problem, plan Plan, o *SimulateOptions) (*solver, []int, error) {
	if fault := pipelines.DispatchFault(pipelines.KindPool, o.Dispatch); fault.Summary != "" {
		return nil, nil, fmt.Errorf("--dispatch %s: %s", o.Dispatch, fault.Detail)
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
