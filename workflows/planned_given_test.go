package workflows

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler"
)

// TestGivenPlanIsCarriedOut applies a plan that nobody would find: with one machine more
// for every group.
func TestGivenPlanIsCarriedOut(t *testing.T) {
	spec := traffic(20)
	spec.Pipeline.Modules[0].Profile.Points, spec.Pipeline.Modules[0].ProfileFile = points("cpu"), "detect.csv"
	spec.Pipeline.Plan.CostModel = "whole"
	found := scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{}, scheduler.Limits{})[0]
	for i := range found.Pipeline.Modules {
		found.Pipeline.Modules[i].Groups[0].Machines++
	}
	machines := 0.0
	for _, m := range found.Pipeline.Modules {
		machines += m.Groups[0].Machines
	}
	w := newWorld(8)
	var stale, none, early, again *reply
	script(t, w, Settings{}, func(r *rig) {
		early = r.update(UpdateApply, ApplyRequest{Spec: spec, Plan: &found, Expect: 4})
		r.update(UpdateApply, ApplyRequest{Spec: spec, Plan: &found, Expect: ExpectNone})
	}, func(r *rig) {
		require.ErrorContains(t, early.rejected, "is at generation 0, not 4")
		s := r.status()
		require.Equal(t, 1, s.Serving, s.Describe())
		assert.Len(t, s.Executors, int(machines))
		assert.True(t, sameJSON(found, *s.Plan), "what was planned is what serves")
		none = r.update(UpdateApply, ApplyRequest{Spec: traffic(30), Plan: &found, Expect: ExpectNone})
		stale = r.update(UpdateApply, ApplyRequest{Spec: traffic(30), Plan: &found, Expect: 2})
		again = r.update(UpdateApply, ApplyRequest{Spec: spec, Plan: &found, Expect: 1})
	}, func(r *rig) {
		require.ErrorContains(t, none.rejected, "is at generation 1")
		require.ErrorContains(t, stale.rejected, "is at generation 1, not 2")
		assert.True(t, again.Unchanged)
		r.update(UpdateRescale, RescaleRequest{Rate: 21})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving)
		assert.Less(t, len(s.Executors), int(machines), "another change is planned again")
	})
}
