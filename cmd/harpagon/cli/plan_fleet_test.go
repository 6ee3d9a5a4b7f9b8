package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/workflows/control"
)

func TestPlanBesideWhatRuns(t *testing.T) {
	serves := planned(0.1, 4)
	s := control.Status{Serving: 3, Rate: 10, Cost: 0.1, Plan: &scheduler.Plan{Pipeline: &serves}}
	for name, c := range map[string]struct {
		status control.Status
		to     plan.Plan
		rate   float64
		want   string
	}{
		"nothing":      {control.Status{}, serves, 10, "p does not serve yet\n"},
		"the same":     {s, serves, 10, "p serves this plan, as generation 3\n"},
		"another rate": {s, serves, 12, "p serves another plan, generation 3; this one changes rate 10/s -> 12/s: cost 0.1 per hour, no change in cost\n"},
		"another plan": {s, planned(0.2, 8), 20, "p serves another plan, generation 3; this one changes rate 10/s -> 20/s: cost 0.1 -> 0.2 per hour, costs 0.1 more per hour\n" +
			"  m: 2 cpu at batch 4, 14 ms -> 2 cpu at batch 8, 14 ms\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareRunning(c.status, c.to, c.rate)
			assert.Equal(t, c.want, got.Describe())
			assert.Equal(t, name == "the same", got.Unchanged)
		})
	}
}

func planned(cost float64, batch int) plan.Plan {
	return plan.Plan{Pipeline: "p", Cost: cost, SLO: 400 * time.Millisecond, Modules: []plan.Module{
		{Name: "same", Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Machines: 1, Duration: 3 * time.Millisecond}}},
		{Name: "m", Groups: []plan.Group{{Hardware: "cpu", Batch: batch, Machines: 2, Duration: 14 * time.Millisecond}}},
	}}
}
