package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// exampleFigures are those of the Harpagon paper that explain by example (sections II and III-B).
func exampleFigures(bySystem Layout) []Figure {
	return []Figure{
		{ID: "harpagon/figure2", Title: "Module M1 at 100 requests per second, dispatched one by one and in batches (figure 2)", Seconds: 1, Layout: bySystem, Run: inBatches},
		{ID: "harpagon/figure4", Title: "Sixteen requests to three machines at 8 per second (figure 4)", Seconds: 1, Layout: bySystem, Run: sixteen},
	}
}

// inBatches plans module M1 of table I with each of its batches alone, and with all of them.
func inBatches(context.Context, *Env) (out Result, err error) {
	points := []pipelines.Point{
		{Hardware: "gpu", Batch: 2, Concurrency: 1, Duration: 160 * time.Millisecond},
		{Hardware: "gpu", Batch: 4, Concurrency: 1, Duration: 200 * time.Millisecond},
		{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 320 * time.Millisecond},
	}
	solve := func(slo time.Duration, without []string, points ...pipelines.Point) plan.Plan {
		return policies.Solve(plan.Problem{
			Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
			Pipeline: pipelines.Pipeline{Name: "m1", SLO: slo, Rate: 100, Modules: []pipelines.Module{{Name: "M1", Fanout: 1, Profile: pipelines.Profile{Points: points}}}},
		}, plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: without})
	}
	for _, row := range []struct {
		system  string
		without []string
		worst   []float64
		printed float64
	}{
		{"round robin", []string{"tc", "multi", "dummy"}, []float64{0.32, 0.4, 0.64}, 5},
		{"in batches", []string{"multi", "dummy"}, []float64{0.18, 0.24, 0.4}, 4},
	} {
		for i, p := range points {
			out.AddPrinted(nil, row.system, fmt.Sprintf("worst case of batches of %d", p.Batch), "s", solve(time.Second, row.without, p).Latency.Seconds(), row.worst[i])
		}
		out.AddPrinted(nil, row.system, "machines at 0.4 s", "", solve(400*time.Millisecond, row.without, points...).Cost, row.printed)
	}
	return out, nil
}

// sixteen plays the example of section III-B request by request: machines A and B run batches of
// six in 2 s, C batches of two in 1 s.
func sixteen(context.Context, *Env) (out Result, err error) {
	const rate = 8
	batch, takes := map[byte]int{'A': 6, 'B': 6, 'C': 2}, map[byte]float64{'A': 2, 'B': 2, 'C': 1}
	for _, row := range []struct {
		system, order string
		printed       float64
	}{
		{"TC dispatch", "AAAAAABBBBBBCCCC", 2.75},
		{"round robin", "ABABABABABABCCCC", 3.375},
	} {
		began, gathered, worst := map[byte]int{}, map[byte]int{}, 0.0
		for i := range len(row.order) {
			m := row.order[i]
			if gathered[m] == 0 {
				began[m] = i
			}
			if gathered[m]++; gathered[m] == batch[m] {
				worst = max(worst, float64(i+1-began[m])/rate+takes[m]) // the first has waited an interval when the next could come
				gathered[m] = 0
			}
		}
		out.AddPrinted(nil, row.system, "worst case", "s", worst, row.printed)
	}
	out.Note("A batch is gathered over as many intervals as requests go by from its first to its last.")
	return out, nil
}
