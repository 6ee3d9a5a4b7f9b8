package scheduler_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// served plans and places services one after the other, each beside what those
// before hold, and returns their plans and slots.
func served(t require.TestingT, fleet []placement.Device, specs ...scheduler.Spec) (plans []plan.Plan, slots [][]placement.Slot) {
	var held []placement.Slot
	for _, s := range specs {
		p := *scheduler.Solve([]scheduler.Spec{s}, scheduler.Fleet{Devices: fleet, Held: held}, scheduler.Limits{})[0].Pipeline
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		placed, err := placement.Place(placement.Request{Pipeline: *s.Pipeline, Plan: p, Devices: fleet, Reserved: held})
		require.NoError(t, err)
		plans, slots, held = append(plans, p), append(slots, placed.Slots), append(held, placed.Slots...)
	}
	return plans, slots
}

func TestALaterServiceUsesWhatIsLeft(t *testing.T) {
	oneKind := twoKinds[:1]
	a := scheduler.Spec{Pipeline: small("a", 5), Hardware: oneKind}
	b := scheduler.Spec{Pipeline: small("b", 3), Hardware: oneKind}
	plans, slots := served(t, devices("gpu", 3), a, b)
	assert.InDelta(t, 1, plans[0].Cost, 1e-9, "the first pays for the device as long as nobody else is there")
	assert.Equal(t, slots[0][0].Device, slots[1][0].Device)
	d := plans[1].Devices[0]
	require.Len(t, d.Tasks, 2, "the plan shows who else uses the device")
	assert.Equal(t, "a", d.Tasks[0].Pipeline)
	assert.InDelta(t, d.Tasks[1].Share/(d.Tasks[0].Share+d.Tasks[1].Share), plans[1].Cost, 1e-9, "its part of the time that is used")
	assert.True(t, plans[1].Sound)
	assert.Equal(t, plan.EveryRequest, plans[1].Proof)
	assert.LessOrEqual(t, plans[1].LowerBound, plans[1].Cost+1e-9)

	// With one device there is the same.
	again, _ := served(t, devices("gpu", 1), a, b)
	assert.InDelta(t, plans[1].Cost, again[1].Cost, 1e-9)
}

func TestWhatCannotBeSharedIsLeftAlone(t *testing.T) {
	oneKind := twoKinds[:1]
	a := scheduler.Spec{Pipeline: small("a", 5), Hardware: oneKind}
	b := scheduler.Spec{Pipeline: small("b", 3), Hardware: oneKind}
	_, slots := served(t, devices("gpu", 3), a)
	for name, change := range map[string]func(*placement.Slot){
		"no period":           func(s *placement.Slot) { s.Period = 0 },
		"side by side":        func(s *placement.Slot) { s.Concurrency = 2 },
		"busy all the time":   func(s *placement.Slot) { s.Period = s.Duration },
		"due at once":         func(s *placement.Slot) { s.Deadline = s.Duration },
		"of another hardware": func(s *placement.Slot) { s.Hardware = "tpu" },
	} {
		t.Run(name, func(t *testing.T) {
			held := slots[0][0]
			change(&held)
			p := *scheduler.Solve([]scheduler.Spec{b}, scheduler.Fleet{Devices: devices("gpu", 3), Held: []placement.Slot{held}}, scheduler.Limits{})[0].Pipeline
			assert.InDelta(t, 1, p.Cost, 1e-9)
			require.Len(t, p.Devices, 1)
			assert.Len(t, p.Devices[0].Tasks, 1)
		})
	}
	// Where nothing else is free, the placement decides.
	b.Pipeline.Plan.CostModel = "whole"
	p := *scheduler.Solve([]scheduler.Spec{b}, scheduler.Fleet{Devices: devices("gpu", 1), Held: slots[0]}, scheduler.Limits{})[0].Pipeline
	assert.InDelta(t, 1, p.Cost, 1e-9)
}

// Of one configuration and one held device, all ways are: to share the device with
// any deadline, or to have a device of its own. The search finds the
// best of them, is never dearer than without the held device, and charges by what it
// uses.
func TestHeldAgainstBruteForce(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		ms := func(low, high int, name string) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Millisecond
		}
		batch := rapid.IntRange(1, 8).Draw(t, "batch")
		duration := ms(2, 60, "duration")
		p := &pipelines.Pipeline{Name: "p", SLO: ms(50, 800, "slo"), Rate: rapid.Float64Range(0.5, 30).Draw(t, "rate"), Modules: []pipelines.Module{{
			Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "gpu", Batch: batch, Concurrency: 1, Duration: duration}}},
		}}}
		spec := scheduler.Spec{Pipeline: p, Hardware: twoKinds[:1]}
		held := placement.Slot{Pipeline: "other", Module: "n", Host: "h", Device: "gpu/0", Hardware: "gpu", Duration: ms(1, 40, "held duration")}
		held.Period = held.Duration * time.Duration(rapid.IntRange(2, 20).Draw(t, "held times"))
		held.Deadline = held.Duration + ms(0, 100, "held slack")
		solve := func(slots ...placement.Slot) plan.Plan {
			return *scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{Held: slots}, scheduler.Limits{})[0].Pipeline
		}
		alone, beside := solve(), solve(held)
		require.Equal(t, alone.Status == plan.Infeasible, beside.Status == plan.Infeasible)
		if alone.Status == plan.Infeasible {
			return
		}
		require.True(t, beside.Sound)
		require.LessOrEqual(t, beside.Cost, alone.Cost*(1+1e-9))
		require.GreaterOrEqual(t, beside.Cost, beside.LowerBound*(1-1e-9))
		other := held.Duration.Seconds() / held.Period.Seconds()
		best := alone.Cost
		for due := float64(duration); due < float64(p.SLO); due += float64(p.SLO) / 3000 {
			period := math.Min((p.SLO - time.Duration(math.Ceil(due))).Seconds(), float64(batch)/p.Rate)
			own := demand.Task{Duration: duration.Seconds(), Period: period, Deadline: p.SLO.Seconds() - period}
			use := own.Duration / own.Period
			tasks := []demand.Task{{Duration: held.Duration.Seconds(), Period: held.Period.Seconds(), Deadline: held.Deadline.Seconds()}, own}
			if period > 0 && use+other <= 1-1e-6 && demand.NonPreemptive(tasks).Sound {
				best = math.Min(best, use/(use+other))
			}
		}
		require.LessOrEqual(t, beside.Cost, best*(1+1e-6), "%s", beside.Describe())
		cost := 0.0
		for _, d := range beside.Devices {
			require.True(t, demand.NonPreemptive(d.Demand()).Sound)
			if len(d.Tasks) > 1 {
				shared++
				cost += d.Price * d.Tasks[1].Share / (d.Tasks[0].Share + d.Tasks[1].Share)
			} else {
				cost += d.Price
			}
		}
		if len(beside.Devices) > 0 && beside.Modules[0].Groups[0].Deadline > 0 && len(beside.Modules[0].Groups) == 1 {
			require.InDelta(t, cost, beside.Cost, 1e-9)
		}
	})
	assert.NotZero(t, shared, "no plan shared")
}

// A cluster whose devices are held by others reports the holders; where there are no
// devices, it reports that.
func TestAClusterSaysWhoHasItsDevices(t *testing.T) {
	vision := scheduler.Spec{
		Cluster: &pipelines.Cluster{Name: "vision", Hardware: "gpu", Pipelines: []string{"member"}},
		Members: []pipelines.Pipeline{*small("member", 5)}, Hardware: twoKinds,
	}
	held := []placement.Slot{
		{Executor: "2", Pipeline: "words", Hardware: "gpu", Host: "h", Device: "gpu0"},
		{Executor: "1", Pipeline: "faces", Hardware: "gpu", Host: "h", Device: "gpu1"},
		{Executor: "3", Pipeline: "words", Hardware: "gpu", Host: "h", Device: "gpu1"},
		{Executor: "4", Pipeline: "other", Hardware: "cpu", Host: "h", Device: "cpu0"},
	}
	reason := func(devices []placement.Device, held []placement.Slot) string {
		p := scheduler.Solve([]scheduler.Spec{vision}, scheduler.Fleet{Devices: devices, Held: held}, scheduler.Limits{})[0].Cluster
		return p.Reason
	}
	assert.Equal(t, `all devices of hardware "gpu" are held by faces, words; delete what is not needed any more (harpagon down NAME), or start a worker on a host that has another`, reason(devices("gpu", 2), held))
	assert.Equal(t, `no device of hardware "gpu" is there; start a worker on a host that has one`, reason(devices("cpu", 2), nil))
	assert.Empty(t, reason(devices("gpu", 3), held))
}
