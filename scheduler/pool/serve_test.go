package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func TestWhatIsServed(t *testing.T) {
	p := pipelines.Pool{Name: "ranking", SLO: 100 * time.Millisecond, Budget: 5, Base: "gpu", Sizes: pipelines.Mix{{Size: 5, Weight: 1}}}
	for _, at := range []pipelines.Point{
		{Hardware: "gpu", Batch: 1, Duration: 10 * time.Millisecond}, {Hardware: "gpu", Batch: 50, Duration: 60 * time.Millisecond},
		{Hardware: "cpu", Batch: 1, Duration: 5 * time.Millisecond}, {Hardware: "cpu", Batch: 10, Duration: 50 * time.Millisecond},
	} {
		at.Concurrency = 1
		p.Profile.Points = append(p.Profile.Points, at)
	}
	chosen := Plan{Status: Feasible, Instances: map[string]int{"cpu": 3, "gpu": 2, "tpu": 0}, Coefficients: map[string]float64{"cpu": 0.3, "gpu": 1}, Cost: 2.6, Goodput: 80}
	of := Served(p, chosen)
	require.Len(t, of.Modules[0].Groups, 2, "kinds without instances are left out")
	gpu, cpu := of.Modules[0].Groups[0], of.Modules[0].Groups[1]
	assert.Equal(t, []string{"gpu", "cpu"}, []string{gpu.Hardware, cpu.Hardware}, "the base is first")
	assert.Equal(t, []int{50, 50}, []int{gpu.Batch, cpu.Batch}, "an executor takes any query")
	assert.Equal(t, 250*time.Millisecond, cpu.Duration, "the line goes on beyond the profile")

	request := placement.Request{Pipeline: p.Served(), Plan: of, Whole: true}
	for _, name := range []string{"gpu/0", "gpu/1", "gpu/2", "cpu/0", "cpu/1", "cpu/2"} {
		request.Devices = append(request.Devices, placement.Device{Host: "h", Name: name, Hardware: name[:3]})
	}
	placed, err := placement.Place(request)
	require.NoError(t, err)
	require.Len(t, placed.Slots, 5)
	request.Actual = placed.Slots
	fewer := chosen
	fewer.Instances = map[string]int{"cpu": 3, "gpu": 1}
	request.Plan = Served(p, fewer)
	placed, err = placement.Place(request)
	require.NoError(t, err)
	assert.Len(t, placed.Slots, 4, "an instance too many is not kept: it is paid for")
	request.Devices = request.Devices[1:5]
	request.Plan = of
	_, err = placement.Place(request)
	assert.ErrorContains(t, err, "does not fit")

	d := Deploy(placement.Deployment{Pipeline: p.Served(), Plan: of}, p, chosen)
	assert.Equal(t, []float64{1, 0.3}, d.Worth)
	made, err := Dispatcher(d, 0)
	require.NoError(t, err)
	policy, err := factory.New(made)
	require.NoError(t, err)
	policy.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0}, nil)
	policy.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 1, Group: 1}, nil)
	out := policy.Step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 1, Size: 40, Deadline: p.SLO}}, nil)
	require.NotEmpty(t, out)
	assert.Equal(t, dispatch.ExecutorID(0), out[0].Executor, "only the base has time for it")
	_, err = Dispatcher(placement.Deployment{}, 0)
	assert.Error(t, err)
	d.Pool.Base = "tpu"
	_, err = Dispatcher(d, 0)
	assert.ErrorContains(t, err, "base")
}
