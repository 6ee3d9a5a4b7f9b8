package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// fannedOut is a detector with crops that come at random numbers (see crops).
type fannedOut struct {
	mean float64
	most int
	slo  time.Duration
}

func (f fannedOut) String() string {
	return fmt.Sprintf("%g crops, %d at most, %v", f.mean, f.most, f.slo)
}

const fannedOutRate = 20 // pictures a second

// overFanout is the figure of what dispatch keeps when more items come than were planned for.
func overFanout() Figure {
	return Figure{
		ID: "dispatching/fanout", Title: "Requests in time when more pictures, or more crops of each, come than planned", Seconds: 20,
		Layout: Layout{Down: []string{System}, Across: []string{"load"}}, Run: runOverFanout,
	}
}

func runOverFanout(ctx context.Context, e *Env) (Result, error) {
	span := 400 * time.Second
	if e.Quick {
		span /= 10
	}
	systems := []struct {
		name, dispatch string
		admission      bool
	}{{"tc", "tc", true}, {"tc, every request taken in", "tc", false}, {"eager, first in, first out", "eager", true}}
	out := Result{Notes: []string{"A detector and crops as in planning/bursts, 20 pictures a second by Poisson arrivals, planned for 0.99 in time under cost model shared. Load is in planned rates; twice the crops are twice as many on average and at most as planned. The upper bound knows all arrivals, takes each module by itself as a fluid, and answers the requests with the fewest crops first."}}
	for _, f := range []fannedOut{{2, 8, 100 * time.Millisecond}, {8, 32, 200 * time.Millisecond}, {8, 16, 400 * time.Millisecond}, {20, 40, 400 * time.Millisecond}} {
		problem := crops(0, f.most, f.mean, f.slo)
		problem.Pipeline.Arrivals, problem.Pipeline.Rate = pipelines.ArrivalsPoisson, fannedOutRate
		p := sizing.Solve(problem, sizing.Options{})
		if p.Status == plan.Infeasible {
			return out, fmt.Errorf("%v: %s", f, p.Reason)
		}
		for _, wide := range []int{1, 2} {
			for _, load := range []float64{0.9, 1, 1.5, 2, 3} {
				if err := ctx.Err(); err != nil {
					return out, err
				}
				more := crops(0, wide*f.most, float64(wide)*f.mean, f.slo).Pipeline
				l := simulate.Load{Pipeline: more, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: load * fannedOutRate}
				at := Set("pictures", f.String(), "crops, in planned ones", wide, "load", load)
				for _, s := range systems {
					r, err := simulate.OnPlans([]simulate.Load{l}, []plan.Plan{p}, simulate.Options{Dispatch: s.dispatch, Admission: s.admission, Duration: span, Eager: true, MaxQueue: maxKept})
					if err != nil {
						return out, err
					}
					out.Add(at, s.name, "in time", "%", 100*r.Pipelines[0].Attainment)
				}
				most, err := boundAttainment(l, p, simulate.Options{Duration: span})
				if err != nil {
					return out, err
				}
				out.Add(at, "upper bound", "in time", "%", 100*most.Attainment)
			}
		}
	}
	return out, nil
}
