package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// chain is a pipeline of n small models, planned to share devices.
func chain(name string, n int, rate float64) (pipelines.Pipeline, plan.Plan) {
	p := pipelines.Pipeline{Name: name, Rate: rate, SLO: time.Duration(n) * 200 * time.Millisecond}
	for i := range n {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
			{Hardware: "gpu", Batch: 4, Concurrency: 1, Duration: 10 * time.Millisecond},
		}}}
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: fmt.Sprintf("m%d", i-1), Port: "y"}}}
		}
		p.Modules = append(p.Modules, m)
	}
	return p, policies.Solve(plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}, plan.Options{})
}

func gpus(n int) (list []Device) {
	for i := range n {
		list = append(list, Device{Host: "host", Name: fmt.Sprintf("gpu/%d", i), Hardware: "gpu"})
	}
	return list
}

func TestPlaceKeepsTogetherWhatSharesADevice(t *testing.T) {
	pipeline, p := chain("a", 5, 20)
	require.Len(t, p.Devices, 1)
	out, err := Place(Request{Pipeline: pipeline, Plan: p, Devices: gpus(2)})
	require.NoError(t, err)
	assert.True(t, out.Proven)
	require.Len(t, out.Slots, 5)
	for _, s := range out.Slots {
		assert.Equal(t, "gpu/0", s.Device)
		assert.Positive(t, s.Period)
		assert.Positive(t, s.Deadline)
	}
	again, err := Place(Request{Pipeline: pipeline, Plan: p, Devices: gpus(2), Actual: out.Slots})
	require.NoError(t, err)
	assert.Equal(t, out.Slots, again.Slots, "what runs stays where it is")
}

func TestPlaceLetsPipelinesShareWhereTheTestHolds(t *testing.T) {
	first, p := chain("a", 2, 5)
	placed, err := Place(Request{Pipeline: first, Plan: p, Devices: gpus(1)})
	require.NoError(t, err)
	second, q := chain("b", 2, 5)
	out, err := Place(Request{Pipeline: second, Plan: q, Devices: gpus(1), Reserved: placed.Slots})
	require.NoError(t, err)
	assert.Equal(t, 4, len(placed.Slots)+len(out.Slots))
	assert.LessOrEqual(t, out.Loads[0].Share, 1.0)
}

func TestPlaceFallsBackToSharesBesideWhatIsUnknown(t *testing.T) {
	pipeline, p := chain("a", 3, 20)
	other := Slot{Executor: "x", Pipeline: "other", Host: "host", Device: "gpu/0", Share: 0.2}
	out, err := Place(Request{Pipeline: pipeline, Plan: p, Devices: gpus(1), Reserved: []Slot{other}})
	require.NoError(t, err)
	assert.False(t, out.Proven, "nobody knows how long the other one holds the device")
	assert.Len(t, out.Slots, 3)
}

func TestPlaceGivesWholeDevicesToFullGroups(t *testing.T) {
	pipeline, p := chain("a", 1, 1000) // 2.5 devices' worth
	out, err := Place(Request{Pipeline: pipeline, Plan: p, Devices: gpus(3)})
	require.NoError(t, err)
	assert.True(t, out.Proven)
	assert.Len(t, out.Slots, 3)
	_, err = Place(Request{Pipeline: pipeline, Plan: p, Devices: gpus(2)})
	var misfit *MisfitError
	require.ErrorAs(t, err, &misfit)
	assert.Positive(t, misfit.Rate)
}
