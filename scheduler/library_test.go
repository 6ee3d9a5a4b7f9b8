package scheduler_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// A printed plan of the library is made for all services and any fleet, one that
// runs for one service beside those that matter to it and for the devices that
// there are: for every policy and cost model they are the same.
func TestPlansOfTheLibraryAreThoseOfEachService(t *testing.T) {
	t.Parallel()
	for _, policy := range pipelines.Policies(scheduler.KindPipeline) {
		for _, model := range pipelines.CostModels() {
			t.Run(policy+"/"+model, func(t *testing.T) {
				doc, err := library.Document()
				require.NoError(t, err)
				require.Empty(t, doc.Override(pipelines.Planning{Policy: policy, CostModel: model}))
				if policy == plan.PolicyExact && model == plan.CostShared {
					doc.Pipelines = doc.Pipelines[:2] // the joint search for all takes seconds
				}
				specs := scheduler.Specs(&doc)
				var fleet scheduler.Fleet
				for _, h := range doc.Hardware {
					fleet.Devices = append(fleet.Devices, devices(h.Name, 32)...)
				}
				slices.Reverse(fleet.Devices)
				printed := scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{})
				for i := range specs {
					runs := scheduler.Solve(append([]scheduler.Spec{specs[i]}, scheduler.Beside(specs, i)...), fleet, scheduler.Limits{})[0]
					assert.Equal(t, printed[i], runs)
					assert.Equal(t, policy, runs.Pipeline.Policy)
					assert.Equal(t, model, runs.Pipeline.CostModel)
				}
			})
		}
	}
}
