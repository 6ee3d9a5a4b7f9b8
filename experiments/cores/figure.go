package cores

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/experiments/figure"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Requests of a run: enough for a steady state.
const (
	fully   = 4_000_000
	quickly = 20_000
)

// Figures is the one about schedulers on several cores.
func Figures() []figure.Figure {
	return []figure.Figure{{
		ID: "symphony/cores", Title: "Million requests per second of processor time, by one policy and by the dispatcher on one and two cores", Seconds: 120,
		Layout: figure.Layout{Down: []string{"models", "executors"}, Across: []string{figure.System}}, Run: run,
	}}
}

// run takes one setting after the other: two at a time would share the cores
// that one of them is to have for itself.
func run(ctx context.Context, e *figure.Env) (figure.Result, error) {
	var out figure.Result
	requests := fully
	if e.Quick {
		requests = quickly
	}
	for _, policy := range []string{"adaptive", "deferred", tc} {
		for _, models := range figure.Part(e, []int{1, 8, 64, 1024}, 2) {
			for _, executors := range figure.Part(e, []int{1, 64, 1000, 4096}, 2) {
				if ctx.Err() != nil {
					return out, ctx.Err()
				}
				s := Setting{Policy: policy, Models: models, Executors: executors, Requests: requests}
				at := figure.Set("models", models, "executors", executors)
				if policy != tc {
					r, err := Step(s)
					if err != nil {
						return out, err
					}
					out.Add(at, policy, "requests", "million/s", r.CoreRate()/1e6)
				}
				// One model has one worker, and in tc executors of its own; in small pools
				// workers mostly wait for their clocks, since few requests are under way.
				if executors < max(1000, models) || models == 1 {
					continue
				}
				for _, s.Workers = range []int{1, 2} {
					r, err := Run(s)
					if err != nil {
						return out, err
					}
					out.Add(at, fmt.Sprintf("%s, %s", policy, quantity.Count(s.Workers, "worker")), "requests", "million/s", r.CoreRate()/1e6)
				}
			}
		}
		if e.Progress != nil {
			e.Progress("Requests per second, "+policy, 1, 1)
		}
	}
	return out, nil
}
