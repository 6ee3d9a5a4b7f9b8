package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// crops is a detector of 5 ms whose pictures, five a second, are cut into items crops each: 10 ms
// for one, 18 for two, 34 for four and 64 for eight.
func crops(items, most int, mean float64, slo time.Duration) plan.Problem {
	point := func(batch int, ms time.Duration) pipelines.Point {
		return pipelines.Point{Hardware: "gpu", Batch: batch, Duration: ms * time.Millisecond}
	}
	if items > 0 {
		mean = float64(items)
	}
	classify := pipelines.Module{
		Name: "classify", Scatter: true, Fanout: mean, Most: most,
		Profile: pipelines.Profile{Points: []pipelines.Point{point(1, 10), point(2, 18), point(4, 34), point(8, 64)}},
		Inputs:  []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "objects"}}},
	}
	detect := pipelines.Module{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{point(1, 5)}}}
	return plan.Problem{
		Pipeline: pipelines.Pipeline{Name: "crops", SLO: slo, Rate: 5, Arrivals: pipelines.ArrivalsEven, Modules: []pipelines.Module{detect, classify}},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
	}
}

// evenly is the same where as many crops come one by one: what a plan by rates alone takes
// for granted.
func evenly(p plan.Problem) plan.Problem {
	m := p.Pipeline.Modules[1]
	m.Scatter, m.Rate, m.Fanout = false, m.Fanout*p.Pipeline.Rate, 1
	p.Pipeline.Modules = []pipelines.Module{p.Pipeline.Modules[0], m}
	return p
}

// cropCosts plans crops that come at once by their number and the objective, and plays what a plan
// for as many that come evenly keeps of them.
func cropCosts(ctx context.Context, e *Env) (Result, error) {
	var out Result
	objectives := Part(e, []int{60, 100, 200, 400}, 3)
	counts := Part(e, []int{1, 2, 4, 8, 16, 32}, 3)
	for _, ms := range objectives {
		for _, k := range counts {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			problem := crops(k, 0, 0, time.Duration(ms)*time.Millisecond)
			at := Set("objective", fmt.Sprintf("%d ms", ms), "crops", k)
			for _, name := range []string{atOnce, oneByOne} {
				one := problem
				if name == oneByOne {
					one = evenly(problem)
				}
				p := policies.Solve(one, plan.Options{})
				if p.Status == plan.Infeasible {
					continue
				}
				r, err := simulate.OnPlans([]simulate.Load{{Pipeline: problem.Pipeline, Rate: problem.Pipeline.Rate}}, []plan.Plan{p},
					simulate.Options{Dispatch: "tc", Duration: time.Minute, Eager: true, MaxQueue: maxKept})
				if err != nil {
					return out, err
				}
				out.Add(at, name, "cost", "", p.Cost)
				out.Add(at, name, "in time", "", float64(r.Pipelines[0].Completed)/float64(r.Pipelines[0].Requests))
			}
		}
	}
	out.Note("A detector of 5 ms and crops of 10 ms each (18 for two, 34 for four, 64 for eight), five pictures a second, one kind of device at 1 an hour, cost model shared. What a plan for an even stream of as many crops keeps is played with crops that come at once.")
	return out, nil
}

// The two ways in which crops are planned for.
const (
	atOnce   = "at once"
	oneByOne = "as if one by one"
)
