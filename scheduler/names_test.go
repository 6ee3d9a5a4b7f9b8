package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Plan blocks accept exactly the names of the planners.
func TestNamesAreThoseOfThePlanners(t *testing.T) {
	assert.Equal(t, policies.Names(), pipelines.Policies(scheduler.KindPipeline))
	assert.Equal(t, pool.Policies(), pipelines.Policies(scheduler.KindPool))
	assert.Equal(t, functions.Policies(), pipelines.Policies(scheduler.KindFunction))
	assert.Equal(t, plan.CostModels(), pipelines.CostModels())
}

// A plan block is refused where the planner refuses it, and where two of its
// attributes contradict each other.
func TestFaultsAreThoseOfThePlanner(t *testing.T) {
	one := func(all ...string) []string { return append([]string{""}, all...) }
	for _, policy := range one(append(policies.Names(), "kairos")...) {
		for _, model := range one(append(plan.CostModels(), "free")...) {
			for _, step := range one(append(pipelines.Steps(), "sleep")...) {
				for _, split := range one("lc", "throughput", "even", "quantized:10ms", "quantized:1us", "quantized:x", "odd") {
					for _, reading := range one(plan.ReadingOwn, plan.ReadingLiteral, "other") {
						p := pipelines.Planning{Policy: policy, CostModel: model, Split: split, Reading: reading}
						o := plan.Options{Policy: policy, CostModel: model, Split: split, Reading: reading}
						if step != "" {
							p.Without, o.Without = []string{step}, []string{step}
						}
						found := p.Faults(scheduler.KindPipeline)
						if (len(found) > 0) != (policies.Check(o) != nil) {
							assert.Fail(t, "they differ", "%+v: %v, planner: %v", p, found, policies.Check(o))
						}
					}
				}
			}
		}
	}
}
