package experiments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// TestKeepsNamesWhatFails: a plan that was made for half the rate does not do.
func TestKeepsNamesWhatFails(t *testing.T) {
	m := pipelines.Module{Name: "model", Fanout: 1}
	for b, d := range shared.Linear(1053*time.Microsecond, 5072*time.Microsecond, 64) {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b + 1, Concurrency: 1, Duration: d})
	}
	p := pipelines.Pipeline{Name: "resnet50", SLO: 25 * time.Millisecond, Modules: []pipelines.Module{m}}
	p.Rate = 2000
	problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
	got := policies.Solve(problem, plan.Options{CostModel: plan.CostWhole})
	require.NoError(t, keepsPromise([]pipelines.Pipeline{p}, []plan.Plan{got}, promisePlay{}))
	p.Rate = 4000
	err := keepsPromise([]pipelines.Pipeline{p}, []plan.Plan{got}, promisePlay{})
	assert.ErrorContains(t, err, `pipeline "resnet50" does not keep its SLO`)
}
