package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// ranking is a pool of a base and a cheap kind that is in time with short
// queries only.
func ranking(budget float64) scheduler.Spec {
	p := &pipelines.Pool{
		Plan: pipelines.Planning{Policy: pool.PolicyKairos},
		Name: "traffic", SLO: 100 * time.Millisecond, Budget: budget, Base: "gpu",
		Sizes: pipelines.Mix{{Size: 5, Weight: 9}, {Size: 40, Weight: 1}},
	}
	for _, size := range []int{1, 50} {
		p.Profile.Points = append(p.Profile.Points,
			pipelines.Point{Hardware: "gpu", Batch: size, Concurrency: 1, Duration: 10*time.Millisecond + time.Duration(size)*time.Millisecond},
			pipelines.Point{Hardware: "cpu", Batch: size, Concurrency: 1, Duration: time.Duration(5*size) * time.Millisecond})
	}
	hardware := []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.2}}
	return scheduler.Spec{Pool: p, Hardware: hardware}
}

func applyPool(budget float64) func(*rig) {
	return func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: ranking(budget)}) }
}

// market is a world with devices to rent.
func market(gpus, cpus int) *world {
	w := newWorld(0)
	h := &w.fleet.Hosts[0]
	for i := range gpus {
		h.Devices = append(h.Devices, placement.Device{Host: h.Name, Name: "gpu/" + string(rune('0'+i)), Hardware: "gpu"})
	}
	for i := range cpus {
		h.Devices = append(h.Devices, placement.Device{Host: h.Name, Name: "cpu/" + string(rune('0'+i)), Hardware: "cpu"})
	}
	return w
}

// kinds counts the executors by hardware.
func kinds(s Status) map[string]int {
	n := map[string]int{}
	for _, e := range s.Executors {
		n[e.Hardware]++
	}
	return n
}

func TestAPoolServes(t *testing.T) {
	w := market(4, 10)
	var rescaled *reply
	scriptOf(t, scheduler.KindPool, w, Settings{}, applyPool(2.5), func(r *rig) {
		s := r.status()
		require.Equal(t, Serving, s.Phase, s.Describe())
		require.NotNil(t, s.Plan.Pool)
		assert.Equal(t, s.Plan.Pool.Instances, kinds(s))
		assert.Greater(t, kinds(s)["cpu"], 0, "short queries are cheaper there")
		assert.LessOrEqual(t, s.Cost, 2.5)
		assert.Equal(t, s.Plan.Pool.Goodput, s.Rate)
		assert.Equal(t, "matching", s.Dispatch)
		assert.Contains(t, s.Describe(), "traffic: feasible pool, policy kairos")
		devices := map[string]bool{}
		for _, e := range s.Executors {
			devices[e.Device] = true
			assert.InDelta(t, 1, e.Share, 1e-9)
		}
		assert.Len(t, devices, len(s.Executors), "every instance has a device to itself")
		d := w.installed[0]
		require.NotNil(t, d.Pool)
		assert.Len(t, d.Worth, len(d.Plan.Modules[0].Groups))
		assert.Equal(t, "gpu", d.Plan.Modules[0].Groups[0].Hardware)
		rescaled = r.update(UpdateRescale, RescaleRequest{Rate: 100})
	}, func(r *rig) {
		assert.ErrorContains(t, rescaled.rejected, "apply it with another budget")
		r.update(UpdateApply, ApplyRequest{Spec: ranking(1.1)})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, map[string]int{"gpu": 1}, kinds(s), "what the budget no longer pays for is given back")
		assert.Equal(t, 1.0, s.Cost)
		assert.NotEmpty(t, w.released)
	})
	assert.Equal(t, []string{"traffic"}, w.removed)
	assert.Empty(t, w.reserved("pool/traffic"))
}

func TestAPoolThatLosesDevicesIsPlannedAnew(t *testing.T) {
	w := market(4, 10)
	w.fleet.Hosts = append(w.fleet.Hosts, activities.HostInfo{Name: "two"})
	w.fleet.Hosts[1].Devices = []placement.Device{{Host: "two", Name: "gpu/0", Hardware: "gpu"}}
	w.fleet.Hosts[0].Devices = w.fleet.Hosts[0].Devices[4:] // cpus only
	scriptOf(t, scheduler.KindPool, w, Settings{}, applyPool(2.5), func(r *rig) {
		require.Equal(t, Serving, r.status().Phase)
		w.mu.Lock()
		w.fleet.Hosts[0].Devices = w.fleet.Hosts[0].Devices[:2]
		w.fleet.Version++
		w.mu.Unlock()
		s := r.status()
		for _, run := range s.Executors {
			if run.Device == "cpu/4" {
				for i := range 30 { // whichever reschedule has started it
					r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(run.Executor, i), Executor: run.Executor, Reason: "a fault"})
				}
			}
		}
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, map[string]int{"gpu": 1, "cpu": 2}, kinds(s))
		assert.Contains(t, s.Decisions[len(s.Decisions)-1].Reason, "ended: a fault")
	})
}

// report reports sizes of queries as a gateway does, every five seconds.
func report(r *rig, begin, end time.Duration, sizes ...autoscale.QueryCount) {
	for at := begin; at < end; at += 5 * time.Second {
		r.at(at, func() {
			to := r.Now()
			r.SignalWorkflow(SignalMeasures, autoscale.Measures{Pipeline: "traffic", From: to.Add(-10 * time.Second), To: to, Arrived: 1000,
				Modules: []autoscale.ModuleMeasures{{Name: pipelines.PoolModule, Queries: sizes}}})
		})
	}
}

func TestAnotherMixOfSizesIsPlannedFor(t *testing.T) {
	w := market(4, 10)
	var before Status
	settings := Settings{Mix: autoscale.MixOptions{Cooldown: time.Second}}
	var hurried []bool
	scriptOf(t, scheduler.KindPool, w, settings, func(r *rig) {
		r.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var request RescheduleRequest
			if info.WorkflowType.Name == TypeReschedule && args.Get(&request) == nil {
				hurried = append(hurried, request.ShortSearch)
			}
		})
		applyPool(4)(r)
	}, func(r *rig) {
		before = r.status()
		require.Equal(t, 1, before.Serving)
		report(r, 0, time.Minute, autoscale.QueryCount{Size: 5, Queries: 880}, autoscale.QueryCount{Size: 40, Queries: 120})
	}, func(r *rig) {
		assert.Equal(t, 1, r.status().Serving, "sizes as planned")
		report(r, 0, time.Minute, autoscale.QueryCount{Size: 5, Queries: 100}, autoscale.QueryCount{Size: 40, Queries: 900}, autoscale.QueryCount{Size: 50, Queries: 30})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, s.Describe())
		assert.Equal(t, []bool{false, true}, hurried, "queries that come do not wait for the last percent")
		assert.Contains(t, s.Cause, "the sizes of queries changed: 10 % of")
		assert.Greater(t, kinds(s)["gpu"], kinds(before)["gpu"], "long queries are for the base")
		assert.LessOrEqual(t, s.Cost, 4.0)
		assert.InDelta(t, 0.87, w.installed[1].Pool.Sizes[1].Weight/w.installed[1].Pool.Sizes.Total(), 0.02)
	})
}

func TestPoolsThatCannotServeAreRejected(t *testing.T) {
	for why, change := range map[string]func(*scheduler.Spec){
		"budget of 0.5":             func(s *scheduler.Spec) { s.Pool.Budget = 0.5 },
		"No size has a weight":      func(s *scheduler.Spec) { s.Pool.Sizes = pipelines.Mix{{Size: 5}} },
		"SLO 30ms cannot be met":    func(s *scheduler.Spec) { s.Pool.SLO = 30 * time.Millisecond },
		"the profile of the base":   func(s *scheduler.Spec) { s.Pool.Sizes = pipelines.Mix{{Size: 51, Weight: 1}} },
		`There is no policy "best"`: func(s *scheduler.Spec) { s.Pool.Plan.Policy = "best" },
		"no hardware to run on":     func(s *scheduler.Spec) { s.Hardware = nil },
	} {
		s := ranking(2.5)
		change(&s)
		assert.ErrorContains(t, SpecFaults(s), why)
	}
	assert.NoError(t, SpecFaults(ranking(2.5)))
}

// Nothing is known of the sizes at first; what comes teaches them.
func TestSizesAreLearnedFromTraffic(t *testing.T) {
	w := market(4, 10)
	spec := ranking(4)
	spec.Pool.Sizes = nil
	scriptOf(t, scheduler.KindPool, w, Settings{Mix: autoscale.MixOptions{Cooldown: time.Second}}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: spec})
	}, func(r *rig) {
		require.Equal(t, Serving, r.status().Phase, r.status().Describe())
		assert.Equal(t, pipelines.Mix{{Size: 1, Weight: 1}, {Size: 50, Weight: 1}}, w.installed[0].Pool.Sizes)
		report(r, 0, time.Minute, autoscale.QueryCount{Size: 5, Queries: 880}, autoscale.QueryCount{Size: 40, Queries: 120})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "the sizes of queries changed")
		assert.Greater(t, s.Plan.Pool.Goodput, s.Decisions[0].Change.ToRate, "short queries are served faster")
	})
}

func TestAPoolWithoutItsBaseWaits(t *testing.T) {
	w := market(0, 3)
	scriptOf(t, scheduler.KindPool, w, Settings{}, applyPool(2.5), func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type)
		assert.Contains(t, s.Failure.Reason, `no worker offers the base "gpu"`)
		assert.Contains(t, s.Failure.Reason, "harpagon worker --hardware gpu")
		w.mu.Lock()
		w.fleet.Hosts[0].Devices = append(w.fleet.Hosts[0].Devices, placement.Device{Host: "one", Name: "gpu/0", Hardware: "gpu"})
		w.mu.Unlock()
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{"one"}})
	}, func(r *rig) {
		assert.Equal(t, Serving, r.status().Phase)
	})
}
