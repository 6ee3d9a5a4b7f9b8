package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// droppers are the rules that are compared. The applications and profiles of the PARD paper
// (arXiv 2602.08747) are not public, nor what it made of its traces: the pipelines of the
// suite with three and more modules and drawn arrivals stand in for them.
var droppers = []struct {
	name      string
	dropping  simulate.Dropping
	admission bool
}{
	{"serves", "", true},
	{"least below", simulate.DropHopeless, false},
	{"least below, admission", simulate.DropHopeless, true},
	{"budgets, admission", simulate.DropBySplit, true},
	{"nexus, as in PARD", simulate.DropReactive, false},
	{"clipper++, as in PARD", simulate.DropBySplit, false},
}

// dropped is a pipeline with its plan.
type dropped struct {
	Workload
	plan plan.Plan
	span float64 // of a run, in requests at the planned rate
}

const (
	deepWorkloads = 12
	deepest       = 100 // workloads of the suite that are looked at
	deepModules   = 3
	deepQuick     = 2 * requests // of a run
	deepFull      = 8 * requests
)

// deep are the first pipelines of the suite with three and more modules, for runs of so many
// requests.
func deep(n int, span float64) ([]dropped, error) {
	all, err := Workloads(DefaultSeed, deepest)
	var some []dropped
	for _, w := range all {
		if len(some) == n || len(w.Problem.Pipeline.Modules) < deepModules {
			continue
		}
		w.Problem.Pipeline.Arrivals = "poisson"
		if p := policies.Solve(w.Problem, plan.Options{CostModel: plan.CostWhole}); p.Status != plan.Infeasible {
			some = append(some, dropped{w, p, span})
		}
	}
	return some, err
}

// dropping is the figure that compares the rules.
func dropping() Figure {
	return Figure{
		ID: "dispatching/dropping", Title: "Dropping across modules: goodput, and device time for requests that fail later", Seconds: 120,
		Layout: Layout{Down: []string{"arrivals", "noise", System}, Across: []string{"load"}}, Run: runDropping,
		Picture: &Picture{Metric: "goodput in planned rates", Panel: []string{"arrivals", "noise"}, X: "load",
			Footer: "Simulated; the first 12 pipelines of the suite with three and more modules, devices whole."},
	}
}

func runDropping(ctx context.Context, e *Env) (Result, error) {
	n, span, processes := deepWorkloads, float64(deepFull), []arrivals.Process{{Kind: "poisson"}, {Kind: "gamma", Shape: 0.2}}
	if e.Quick {
		n, span, processes = 2, deepQuick, processes[1:]
	}
	drawn, err := deep(n, span)
	if err != nil {
		return Result{}, err
	}
	type point struct {
		process     arrivals.Process
		noise, load float64
		system      int
	}
	var points []point
	for _, a := range processes {
		for _, noise := range []float64{0, 0.1} {
			for _, load := range []float64{1, 1.5, 2, 3} {
				for i := range droppers {
					points = append(points, point{a, noise, load, i})
				}
			}
		}
	}
	found := make([]drop, len(points))
	err = e.Each(ctx, "Dropping", len(points), func(i int) (err error) {
		p, d := points[i], droppers[points[i].system]
		found[i], err = measureDrops(drawn, p.process, p.load, simulate.Options{
			Eager: true, Admission: d.admission, Dropping: d.dropping, Noise: p.noise, Stop: func() bool { return ctx.Err() != nil },
		})
		if errors.Is(err, simulate.ErrStopped) {
			return ctx.Err()
		}
		return err
	})
	out := Result{Notes: []string{"Row serves is what gateways do: requests are tested when they come, given up at the first module when they could not leave the others their budgets while its queue does not empty, and given up before their items run when these are too many. The other rows go by deadlines alone, or with the same admission. No rule exceeds the upper bound, which looks at each module by itself, as a fluid (package simulate/bound). Pipelines, profiles and arrivals are not those of the PARD paper (arXiv 2602.08747), which are not public."}}
	for i, p := range points {
		at := Set("arrivals", describe(p.process), "noise", p.noise, "pipelines", len(drawn), "load", p.load)
		out.Add(at, droppers[p.system].name, "goodput in planned rates", "", found[i].goodput)
		out.Add(at, droppers[p.system].name, "device time wasted", "%", 100*found[i].wasted)
		out.Add(at, droppers[p.system].name, "device time wasted, the pipeline with most", "%", 100*found[i].worst)
		if p.noise == 0 && p.system == len(droppers)-1 && err == nil {
			var most float64
			most, err = upperBound(drawn, p.process, p.load)
			out.Add(at, "upper bound", "goodput in planned rates", "", most)
		}
	}
	return out, err
}

// upperBound is the goodput that no rule exceeds.
func upperBound(drawn []dropped, process arrivals.Process, load float64) (float64, error) {
	sum := 0.0
	for _, w := range drawn {
		l, o := w.under(process, load, simulate.Options{})
		b, err := boundAttainment(l, w.plan, o)
		if err != nil {
			return 0, err
		}
		sum += load * b.Attainment / float64(len(drawn))
	}
	return sum, nil
}

// under is a load of the pipeline, for as long as it takes.
func (w *dropped) under(process arrivals.Process, load float64, o simulate.Options) (simulate.Load, simulate.Options) {
	o.Duration = time.Duration(w.span / w.Problem.Pipeline.Rate * float64(time.Second))
	return simulate.Load{Pipeline: w.Problem.Pipeline, Arrivals: process, Rate: load * w.Problem.Pipeline.Rate}, o
}

func describe(p arrivals.Process) string {
	if p.Shape > 0 {
		return fmt.Sprintf("%s:%g", p.Kind, p.Shape)
	}
	return p.Kind
}

// drop is what a rule reaches: goodput in planned rates, and the share of device time for
// requests that were not in time, means over the pipelines, and at the pipeline with most.
type drop struct{ goodput, wasted, worst float64 }

func measureDrops(drawn []dropped, process arrivals.Process, load float64, o simulate.Options) (drop, error) {
	var sum drop
	for _, w := range drawn {
		l, with := w.under(process, load, o)
		r, err := simulate.OnPlans([]simulate.Load{l}, []plan.Plan{w.plan}, with)
		if err != nil {
			return sum, err
		}
		sum.goodput += load * r.Pipelines[0].Attainment / float64(len(drawn))
		sum.wasted += r.Pipelines[0].Wasted / float64(len(drawn))
		sum.worst = max(sum.worst, r.Pipelines[0].Wasted)
	}
	return sum, nil
}
