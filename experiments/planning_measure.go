package experiments

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Outcome is what a variant made of a workload. Its Status is empty where the
// variant was not run.
type Outcome struct {
	Status  plan.Status
	Sound   bool
	Cost    float64       // money per hour
	Bound   float64       // proven lower bound; 0 when none is known
	Claimed time.Duration // end to end
	Proven  time.Duration // end to end; 0 when a module has no proof
	Solve   time.Duration
}

// Measure plans the workload with all variants. The clock is monotonic; nil
// leaves solve times zero. A limit above zero bounds searches that can be cut
// short.
func (w Workload) Measure(variants []Variant, clock func() time.Duration, limit time.Duration) []Outcome {
	list := make([]Outcome, len(variants))
	for i, v := range variants {
		if v.Every > 1 && w.ID%v.Every != 0 {
			continue
		}
		o := v.Options
		o.Clock, o.TimeLimit = clock, limit
		list[i] = outcome(&w.Problem.Pipeline, policies.Solve(w.Problem, o))
	}
	return list
}

func outcome(pipe *pipelines.Pipeline, p plan.Plan) Outcome {
	return Outcome{
		Status: p.Status, Sound: p.Sound, Cost: p.Cost, Bound: p.LowerBound,
		Claimed: p.Latency, Proven: proven(pipe, &p), Solve: p.SolveTime,
	}
}

// proven is the longest path of proven worst cases, or 0 when a module that
// serves requests has none.
func proven(pipe *pipelines.Pipeline, p *plan.Plan) time.Duration {
	worst := map[string]time.Duration{}
	for _, m := range p.Modules {
		if m.Proven == 0 && m.Rate > 0 {
			return 0
		}
		worst[m.Name] = m.Proven
	}
	_, total, err := pipe.LongestPath(func(name string) time.Duration { return worst[name] })
	if err != nil || p.Status == plan.Infeasible {
		return 0
	}
	return total
}

// feasible says whether there is a plan.
func (o Outcome) feasible() bool { return o.Status == plan.Optimal || o.Status == plan.Feasible }

// gap is how far the cost may lie above the least possible, as a share of it.
func (o Outcome) gap() float64 {
	if o.Cost <= o.Bound || o.Cost == 0 {
		return 0
	}
	return (o.Cost - o.Bound) / o.Cost
}
