package scheduler

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// Limits end a search early: the best plan found by then is returned, with its
// bound. The zero value ends none.
type Limits struct {
	Clock     func() time.Duration // reads a monotonic clock; nil measures no time
	TimeLimit time.Duration        // of each search, by Clock; 0 for none
	Stop      func() bool          // asked from time to time; nil for never
}

// Solve plans services, together where they may share devices, and answers in
// their order. A service that cannot be planned has a plan that says why; it does
// not stop the others.
func Solve(specs []Spec, fleet Fleet, limits Limits) []Plan {
	plans := make([]Plan, len(specs))
	solvePipelines(specs, fleet, limits, plans)
	for i, s := range specs {
		switch s.Kind() {
		case KindPool:
			p := pool.Solve(pool.Problem{Pool: *s.Pool, Hardware: fleet.available(s.Hardware)}, pool.Options{Policy: s.Pool.Plan.Policy})
			plans[i].Pool = &p
		case KindFunction:
			p := solveFunction(s, limits)
			plans[i].Function = &p
		}
	}
	return plans
}

// solvePipelines plans those together that are planned in the same way.
func solvePipelines(specs []Spec, fleet Fleet, limits Limits, plans []Plan) {
	done := make([]bool, len(specs))
	for i, s := range specs {
		if done[i] || s.Kind() != KindPipeline {
			continue
		}
		var alike []plan.Problem
		var index []int
		for k, other := range specs {
			if other.Kind() == KindPipeline && samePlanning(s.Pipeline.Plan, other.Pipeline.Plan) {
				alike = append(alike, plan.Problem{Pipeline: *other.Pipeline, Hardware: fleet.available(other.Hardware)})
				index, done[k] = append(index, k), true
			}
		}
		for k, p := range sizing.SolveAll(alike, planOptions(s.Pipeline.Plan, limits)) {
			plans[index[k]].Pipeline = &p
		}
	}
}

func samePlanning(a, b pipelines.Planning) bool {
	return a.Policy == b.Policy && a.CostModel == b.CostModel && a.Split == b.Split && a.Reading == b.Reading &&
		a.Concurrency == b.Concurrency && slices.Equal(a.Without, b.Without)
}

func planOptions(p pipelines.Planning, l Limits) plan.Options {
	return plan.Options{
		Policy: p.Policy, CostModel: p.CostModel, Without: p.Without, Split: p.Split, Reading: p.Reading, Concurrency: p.Concurrency,
		TimeLimit: l.TimeLimit, Stop: l.Stop, Clock: l.Clock,
	}
}

func solveFunction(s Spec, l Limits) functions.Plan {
	var provider pipelines.Provider
	if s.Provider != nil {
		provider = *s.Provider
	}
	p, err := functions.Solve(functions.Problem{Function: *s.Function, Provider: provider}, functions.Options{Policy: s.Function.Plan.Policy, Clock: l.Clock})
	if err != nil {
		return functions.Plan{Function: s.Function.Name, Policy: s.Function.Plan.Policy, Status: functions.Infeasible, Reason: err.Error()}
	}
	return p
}

// available is the declared hardware that the fleet has, with no more of each
// kind than there is.
func (f Fleet) available(declared []pipelines.Hardware) []pipelines.Hardware {
	if f.Devices == nil {
		return declared
	}
	count := map[string]int{}
	for _, d := range f.Devices {
		count[d.Hardware]++
	}
	var all []pipelines.Hardware
	for _, h := range declared {
		if n := count[h.Name]; n > 0 {
			if h.Count == 0 || n < h.Count {
				h.Count = n
			}
			all = append(all, h)
		}
	}
	return all
}
