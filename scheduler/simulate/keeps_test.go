package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// TestKeepsNamesWhatFails: a plan that was made for half the rate does not do.
func TestKeepsNamesWhatFails(t *testing.T) {
	p := resnet50()
	p.Rate = 2000
	problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
	got := policies.Solve(problem, plan.Options{CostModel: plan.CostWhole})
	require.NoError(t, Keeps([]pipelines.Pipeline{p}, []plan.Plan{got}, Keeping{}))
	p.Rate = 4000
	err := Keeps([]pipelines.Pipeline{p}, []plan.Plan{got}, Keeping{})
	assert.ErrorContains(t, err, `pipeline "resnet50" does not keep its SLO`)
}
