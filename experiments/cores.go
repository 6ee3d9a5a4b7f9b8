package experiments

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Requests of a run: enough for a steady state.
const (
	fully        = 4_000_000
	coresQuickly = 20_000
)

// coresFigures is the one about schedulers on several cores.
func coresFigures() []Figure {
	return []Figure{{
		ID: "symphony/cores", Title: "Million requests per second of processor time, by one policy and by the dispatcher on one and two cores", Seconds: 120,
		Layout: Layout{Down: []string{"models", "executors"}, Across: []string{System}}, Run: runCores,
	}}
}

// runCores takes one setting after the other: two at a time would share the cores
// that one of them is to have for itself.
func runCores(ctx context.Context, e *Env) (Result, error) {
	var out Result
	requests := fully
	if e.Quick {
		requests = coresQuickly
	}
	for _, policy := range []string{"adaptive", "deferred", tc} {
		for _, models := range Part(e, []int{1, 8, 64, 1024}, 2) {
			for _, executors := range Part(e, []int{1, 64, 1000, 4096}, 2) {
				if ctx.Err() != nil {
					return out, ctx.Err()
				}
				s := CoresSetting{Policy: policy, Models: models, Executors: executors, Requests: requests}
				at := Set("models", models, "executors", executors)
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
