package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// A rider stands beside an executor of its pipeline, though another device is idle.
func TestRidersStandBesideExecutors(t *testing.T) {
	group := func(share float64, rides bool) plan.Group {
		d := 10 * time.Millisecond
		if rides {
			d = 10 * time.Microsecond
		}
		return plan.Group{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: d, Machines: share, Rate: 20, Period: 50 * time.Millisecond, Window: d, Rides: rides}
	}
	r := Request{
		Plan: plan.Plan{Pipeline: "p", CostModel: plan.CostWhole, Status: plan.Optimal, Modules: []plan.Module{
			{Name: "model", Rate: 20, Groups: []plan.Group{group(1, false)}},
			{Name: "step", Rate: 20, Groups: []plan.Group{group(0.0002, true)}},
		}},
		Devices: []Device{{Host: "h", Name: "cpu/0", Hardware: "cpu"}, {Host: "h", Name: "cpu/1", Hardware: "cpu"}},
	}
	first, err := Place(r)
	require.NoError(t, err)
	require.Len(t, first.Slots, 2)
	assert.True(t, first.Proven)
	assert.Equal(t, first.Slots[0].Device, first.Slots[1].Device)
	assert.False(t, first.Slots[0].Rides)
	assert.True(t, first.Slots[1].Rides)

	r.Actual = first.Slots
	again, err := Place(r)
	require.NoError(t, err)
	assert.Equal(t, first.Slots, again.Slots, "nothing moves without a reason")

	other := r
	other.Actual, other.Plan.Pipeline = nil, "q"
	other.Reserved, other.Devices = first.Slots, r.Devices
	beside, err := Place(other)
	require.NoError(t, err)
	assert.True(t, beside.Proven, "a rider of others leaves a device provable")
}
