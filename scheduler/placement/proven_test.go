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
	assert.False(t, out.Proven, "how long the other one holds the device is unknown")
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

func TestPlacePutsPartnersTogether(t *testing.T) {
	first, _ := chain("a", 2, 5)
	second, _ := chain("b", 2, 5)
	hardware := []pipelines.Hardware{{Name: "gpu", Price: 1}}
	plans := policies.SolveAll([]plan.Problem{{Pipeline: first, Hardware: hardware}, {Pipeline: second, Hardware: hardware}}, plan.Options{})
	require.InDelta(t, 1, plans[0].Cost+plans[1].Cost, 1e-9, "one device is enough for both")
	placed, err := Place(Request{Pipeline: first, Plan: plans[0], Devices: gpus(3)})
	require.NoError(t, err)
	out, err := Place(Request{Pipeline: second, Plan: plans[1], Devices: gpus(3), Reserved: placed.Slots})
	require.NoError(t, err)
	assert.True(t, out.Proven)
	for _, s := range out.Slots {
		assert.Equal(t, placed.Slots[0].Device, s.Device)
	}
}

func TestPlaceGivesBatchesSideBySideADeviceOfTheirOwn(t *testing.T) {
	point := pipelines.Point{Hardware: "gpu", Batch: 4, Concurrency: 2, Duration: 10 * time.Millisecond, MemoryMiB: 3}
	module := pipelines.Module{Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{point}}}
	wide := pipelines.Pipeline{Name: "wide", Rate: 700, SLO: 100 * time.Millisecond, Modules: []pipelines.Module{module}}
	p := policies.Solve(plan.Problem{Pipeline: wide, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}, plan.Options{CostModel: plan.CostWhole})
	require.Equal(t, 1.0, p.Cost, p.Reason)
	other, q := chain("a", 2, 5)
	held, err := Place(Request{Pipeline: other, Plan: q, Devices: gpus(1)})
	require.NoError(t, err)
	request := Request{Pipeline: wide, Plan: p, Devices: gpus(2), Reserved: held.Slots, Engines: map[string]ModuleEngine{"m": {Memory: 100}}}
	out, err := Place(request)
	require.NoError(t, err)
	require.True(t, out.Proven)
	require.Len(t, out.Slots, 1)
	assert.Equal(t, "gpu/1", out.Slots[0].Device)
	assert.Equal(t, 2, out.Slots[0].Concurrency)
	assert.Equal(t, int64(200), out.Slots[0].Memory, "an instance for each batch")
	assert.Contains(t, out.Slots[0].Executor, "#b4x2-")
	request.Devices, request.Actual = gpus(2), out.Slots
	request.Plan.Modules[0].Groups[0].Concurrency = 1
	request.Plan.Modules[0].Groups[0].Period = 10 * time.Millisecond
	again, err := Place(request)
	require.NoError(t, err)
	assert.NotEqual(t, out.Slots[0].Executor, again.Slots[0].Executor, "another concurrency is another executor")
	_, err = Place(Request{Pipeline: other, Plan: q, Devices: gpus(2)[1:], Reserved: out.Slots})
	assert.Error(t, err, "nothing runs beside")
}
