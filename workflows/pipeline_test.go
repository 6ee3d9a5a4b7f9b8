package workflows

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// script runs a pipeline through steps, one a minute, and deletes it then.
func script(t *testing.T, w *world, s Settings, steps ...func(r *rig)) *rig {
	return scriptOf(t, scheduler.KindPipeline, w, s, steps...)
}

// scriptOf runs a service of another kind.
func scriptOf(t *testing.T, kind scheduler.Kind, w *world, s Settings, steps ...func(r *rig)) *rig {
	r := newRig(t, w)
	r.kind = kind
	for i, step := range steps {
		r.at(time.Duration(i)*time.Minute, func() { step(r) })
	}
	r.at(time.Duration(len(steps))*time.Minute, func() { r.update(UpdateDelete, "the test is over") })
	r.run(s)
	return r
}

func apply(rate float64) func(*rig) {
	return func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: traffic(rate)}) }
}

func TestApplyServes(t *testing.T) {
	w := newWorld(4)
	var got *reply
	script(t, w, Settings{}, func(r *rig) {
		got = r.update(UpdateApply, ApplyRequest{Spec: traffic(20)})
	}, func(r *rig) {
		assert.NoError(t, got.rejected)
		assert.Equal(t, 1, got.Generation)
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 1, s.Serving)
		assert.Nil(t, s.Failure)
		require.NotNil(t, s.Plan)
		assert.NotEmpty(t, s.Executors)
		for _, e := range s.Executors {
			w.runs(t, e.Executor, true)
		}
		assert.Equal(t, []string{"detect@cpu"}, w.profiled, "vehicle has a profile on file")
		require.Equal(t, 1, len(w.installed))
		assert.Equal(t, w.installed[0].Slots, s.Executors)
		assert.Equal(t, s.Executors, w.reserved("pipeline/traffic"))
		assert.Contains(t, s.Describe(), "pipeline traffic: serving, generation 1")
		assert.Contains(t, s.Describe(), "because: applied")
	})
	assert.Equal(t, []string{"traffic"}, w.removed)
	assert.Empty(t, w.reserved("pipeline/traffic"))
	w.counts(t, 0)
}

// TestApplyAgainAtOnce applies the same while it is carried out for the first time.
func TestApplyAgainAtOnce(t *testing.T) {
	w := newWorld(4)
	r := newRig(t, w)
	r.OnActivity("Prepare", mock.Anything, mock.Anything).Return(w.prepare).After(90 * time.Second)
	var same, scaled, other *reply
	r.at(0, func() { apply(20)(r) })
	r.at(time.Minute, func() {
		assert.Zero(t, r.status().Serving)
		same = r.update(UpdateApply, ApplyRequest{Spec: traffic(20)})
		scaled = r.update(UpdateRescale, RescaleRequest{Rate: 20})
	})
	r.at(2*time.Minute, func() {
		assert.Equal(t, ChangeReply{Generation: 1, Unchanged: true}, same.ChangeReply)
		assert.Equal(t, ChangeReply{Generation: 1, Unchanged: true}, scaled.ChangeReply)
		assert.Equal(t, 1, r.status().Serving)
		assert.Len(t, w.installed, 1)
		r.update(UpdateApply, ApplyRequest{Spec: traffic(400)})
	})
	r.at(3*time.Minute, func() { other = r.update(UpdateApply, ApplyRequest{Spec: traffic(20)}) })
	r.at(7*time.Minute, func() {
		assert.Equal(t, ChangeReply{Generation: 3}, other.ChangeReply, "it is another than the one that is carried out")
		assert.Equal(t, 3, r.status().Serving)
		r.update(UpdateDelete, "the test is over")
	})
	r.run(Settings{})
}

func TestApplyAgain(t *testing.T) {
	w := newWorld(4)
	var same, other *reply
	var before []string
	script(t, w, Settings{}, apply(20), func(r *rig) {
		same = r.update(UpdateApply, ApplyRequest{Spec: traffic(20)})
	}, func(r *rig) {
		assert.True(t, same.Unchanged)
		assert.Equal(t, 1, len(w.installed))
		before = executorNames(r.status())
		other = r.update(UpdateApply, ApplyRequest{Spec: traffic(400), Expect: 1, Reason: "a fair opens"})
	}, func(r *rig) {
		require.NoError(t, other.rejected)
		s := r.status()
		assert.Equal(t, 2, s.Serving)
		require.Equal(t, 2, len(s.Decisions))
		last := s.Decisions[1]
		assert.Equal(t, "a fair opens", last.Reason)
		assert.Equal(t, 20.0, last.Change.FromRate)
		assert.Equal(t, 400.0, last.Change.ToRate)
		assert.Contains(t, s.Describe(), "rate 20/s -> 400/s: cost ")
		assert.Contains(t, s.Describe(), "more per hour")
		assert.Equal(t, 1, len(w.profiled), "what has not changed is not measured again")
	}, func(r *rig) { // executors end in their own time
		now := executorNames(r.status())
		for _, name := range before {
			w.runs(t, name, contains(now, name))
			assert.Equal(t, !contains(now, name), contains(w.released, name), name)
		}
	})
}

// Another dispatch policy is another generation of the deployment and nothing
// else: no executor starts or stops.
func TestApplyOfAnotherDispatch(t *testing.T) {
	w := newWorld(4)
	var unfit *reply
	var before []string
	script(t, w, Settings{}, apply(20), func(r *rig) {
		before = executorNames(r.status())
		assert.Equal(t, "tc", r.status().Dispatch)
		next := traffic(20)
		next.Pipeline.Dispatch = "adaptive"
		r.update(UpdateApply, ApplyRequest{Spec: next})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving)
		assert.Equal(t, "adaptive", s.Dispatch)
		assert.Equal(t, before, executorNames(s))
		d := s.Decisions[1]
		assert.Equal(t, []int{0, len(before), 0}, []int{d.Start, d.Keep, d.Stop})
		assert.Equal(t, "adaptive", w.installed[1].Pipeline.Dispatch)
		assert.Empty(t, w.released)
		assert.Regexp(t, `detect +adaptive +- `, s.Describe())
		next := traffic(20)
		next.Pipeline.Dispatch = "matching"
		unfit = r.update(UpdateApply, ApplyRequest{Spec: next})
	}, func(r *rig) {
		assert.ErrorContains(t, unfit.rejected, "Declare a pool block")
		r.SignalWorkflow(SignalMeasures, autoscale.Measures{Modules: []autoscale.ModuleMeasures{{
			Name: "detect", Policy: "adaptive", Rate: 19.96, Batches: 7, MeanBatch: 2.5, Dropped: 3, Drops: map[string]int64{"late": 2, "full": 1},
			Sizes: []autoscale.SizeCount{{Size: 1, Batches: 2}, {Size: 2, Batches: 1}, {Size: 4, Batches: 4}}, Wait: autoscale.Percentiles{P50: 12 * time.Millisecond, P99: 30 * time.Millisecond},
		}}})
	}, func(r *rig) {
		assert.Regexp(t, `detect +adaptive +19.96 +2.50 +1: 2, 2: 1, 4: 4 +12 ms, 30 ms +0 ms, 0 ms +1 full, 2 late\n`, r.status().Describe())
	})
}

func executorNames(s Status) (names []string) {
	for _, e := range s.Executors {
		names = append(names, e.Executor)
	}
	return names
}

func contains(all []string, name string) bool {
	for _, x := range all {
		if x == name {
			return true
		}
	}
	return false
}

func TestValidatorsReject(t *testing.T) {
	bad := traffic(20)
	bad.Pipeline.SLO = 0
	renamed := traffic(20)
	renamed.Pipeline.Name = "other"
	bare := traffic(20)
	bare.Hardware = nil
	cases := []struct {
		update string
		arg    any
		want   string
	}{
		{UpdateRescale, RescaleRequest{Rate: 0}, "above zero"},
		{UpdateRescale, RescaleRequest{Rate: math.Inf(1)}, ""},
		{UpdateRescale, RescaleRequest{Rate: 5, Expect: 7}, "generation 1, not 7"},
		{UpdateApply, ApplyRequest{Spec: bad}, "SLO"},
		{UpdateApply, ApplyRequest{Spec: renamed}, `pipeline "traffic" was sent the spec of pipeline "other"`},
		{UpdateApply, ApplyRequest{Spec: bare}, "hardware"},
		{UpdateApply, ApplyRequest{Spec: traffic(20), Expect: 9}, "generation 1, not 9"},
	}
	w := newWorld(4)
	script(t, w, Settings{}, func(r *rig) {
		got := r.update(UpdateRescale, RescaleRequest{Rate: 5})
		r.at(time.Second, func() { assert.ErrorContains(t, got.rejected, "no spec yet") })
	}, apply(20), func(r *rig) {
		for _, c := range cases {
			if c.want == "" {
				continue // JSON cannot carry it
			}
			got := r.update(c.update, c.arg)
			r.at(time.Second, func() { assert.ErrorContains(t, got.rejected, c.want) })
		}
	}, func(r *rig) {
		assert.Equal(t, 1, r.status().Generation)
	})
}

func TestRescale(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(200), func(r *rig) {
		r.update(UpdateRescale, RescaleRequest{Rate: 10})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 10.0, s.Rate)
		assert.Equal(t, 2, s.Serving)
		assert.Equal(t, "rescaled from 200/s to 10/s", s.Cause)
		assert.Contains(t, s.Describe(), "saves ")
	})
}

func TestMisfitLeavesTheOldPlan(t *testing.T) {
	w := newWorld(2)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		r.update(UpdateRescale, RescaleRequest{Rate: 5000})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 1, s.Serving)
		require.NotNil(t, s.Failure)
		assert.Equal(t, 2, s.Failure.Generation)
		assert.NotEmpty(t, s.Failure.Reason)
		assert.Contains(t, s.Describe(), "could not be carried out")
		assert.Equal(t, []int{1, 1}, []int{s.Generation, s.Serving}, "the status is of what serves")
		assert.Equal(t, 20.0, s.Rate)
		assert.Equal(t, "applied", s.Cause)
		assert.Equal(t, &PendingChange{Generation: 2, Rate: 5000, Cause: "rescaled from 20/s to 5000/s"}, s.Requested)
		assert.Contains(t, s.Describe(), "pipeline traffic: serving, generation 1, 20 requests/s, ")
		assert.Contains(t, s.Describe(), "asked for: generation 2, 5000 requests/s, because: rescaled from 20/s to 5000/s\n")
		for _, e := range s.Executors {
			w.runs(t, e.Executor, true)
		}
		assert.Equal(t, s.Executors, w.reserved("pipeline/traffic"))
	})
}

func TestUnreadyExecutorsAreTakenBack(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{RetryAfter: 10 * time.Minute}, apply(20), func(r *rig) {
		w.prepareErr = activitiesNotReady()
		r.update(UpdateRescale, RescaleRequest{Rate: 150})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving)
		require.NotNil(t, s.Failure)
		assert.Equal(t, "still waits for detect", s.Failure.Reason)
		assert.False(t, s.Failure.RetryAt.IsZero())
		assert.False(t, s.Pending)
		assert.Equal(t, s.Executors, w.reserved("pipeline/traffic"))
		w.prepareErr = nil
		w.installing = func(string) {
			s := r.status()
			assert.True(t, s.Pending, "what failed before is not what comes of the next try")
			assert.NotNil(t, s.Failure)
		}
	}, func(r *rig) {
		// A step later, since cancelled executors end in their own time.
		w.counts(t, len(r.status().Executors))
	}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(*rig) {}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, "the change is tried again by itself")
		assert.False(t, s.Pending)
		before, failed, again := w.prepared[0].Slots, w.prepared[1].Slots, w.prepared[2].Slots
		first, second := placement.Reconcile(failed, before), placement.Reconcile(again, before)
		require.NotEmpty(t, first.Start)
		assert.Len(t, second.Start, len(first.Start))
		assert.Equal(t, second.Start, placement.Reconcile(second.Start, first.Start).Start, "none is taken for one that was taken back, and may not have ended")
	})
}

// TestWhyAnExecutorCannotLoadIsWhyTheChangeFails does not wait for the gateway to
// give up on an executor that has ended.
func TestWhyAnExecutorCannotLoadIsWhyTheChangeFails(t *testing.T) {
	w := newWorld(4)
	w.prepareErr = activitiesNotReady()
	w.loadErr = temporal.NewNonRetryableApplicationError("detect cannot be loaded: unknown operator Frobnicate", activities.TypeLoad, nil)
	env := quietEnv()
	w.register(env)
	env.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(nil)
	spec := traffic(20)
	spec.Pipeline.Modules[0].Profile.Points = points("cpu")
	env.ExecuteWorkflow(TypeReschedule, RescheduleRequest{Spec: spec, Generation: 1, Number: 1, Reason: "applied"})
	err := env.GetWorkflowError()
	require.Error(t, err)
	assert.Equal(t, "detect cannot be loaded: unknown operator Frobnicate", activities.Reason(err))
	assert.Equal(t, activities.TypeLoad, activities.ReasonType(err))
	assert.Empty(t, w.installed)
}

func TestReservationConflictPlacesAgain(t *testing.T) {
	w := newWorld(4)
	w.conflicts = 2
	script(t, w, Settings{}, apply(20), func(r *rig) {
		assert.Equal(t, 1, r.status().Serving)
		assert.Equal(t, 1, w.settled, "in turn after the first")
	})
}

func TestNoDevices(t *testing.T) {
	w := newWorld(0)
	script(t, w, Settings{RetryAfter: time.Hour}, apply(20), func(r *rig) {
		s := r.status()
		assert.Equal(t, Waiting, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Contains(t, s.Failure.Reason, "start a worker")
		w.fleet = activities.FleetView{Version: 2, Hosts: []activities.HostInfo{host("two", 4)}, Reserved: w.fleet.Reserved}
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{"two"}})
	}, func(r *rig) {
		assert.Equal(t, 1, r.status().Serving)
	})
}

// TestAHostThatLeaves: what runs there moves, and runs until the next plan serves. Where
// there is no other room it stays, and moves when a host joins.
func TestAHostThatLeaves(t *testing.T) {
	w := newWorld(2)
	leaves := func(r *rig, name string) {
		w.change(func() {
			for i := range w.fleet.Hosts {
				w.fleet.Hosts[i].Leaving = w.fleet.Hosts[i].Leaving || w.fleet.Hosts[i].Name == name
			}
		})
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Leaving: []string{name}})
	}
	script(t, w, Settings{}, apply(20), func(r *rig) {
		leaves(r, "one")
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 1, s.Serving)
		assert.Equal(t, map[string]bool{"one": true}, hostsOf(s), "there is no other")
		require.NotNil(t, s.Failure)
		for _, e := range s.Executors {
			w.runs(t, e.Executor, true)
		}
		w.change(func() { w.fleet.Hosts = append(w.fleet.Hosts, host("two", 2)) })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{"two"}})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, s.Describe())
		assert.Equal(t, "host one is about to leave", s.Cause)
		assert.Equal(t, map[string]bool{"two": true}, hostsOf(s))
		assert.Len(t, w.released, len(s.Executors), "after traffic has moved")
		w.change(func() { w.fleet.Hosts = append(w.fleet.Hosts, host("three", 2)) })
		leaves(r, "three")
	}, func(r *rig) {
		assert.Equal(t, 2, r.status().Serving, "nothing runs there")
		leaves(r, "two")
	}, func(r *rig) {
		assert.Equal(t, 2, r.status().Serving, "all leave")
	})
}

func hostsOf(s Status) map[string]bool {
	all := map[string]bool{}
	for _, e := range s.Executors {
		all[e.Host] = true
	}
	return all
}

func TestHostLost(t *testing.T) {
	for why, change := range map[string]FleetChange{
		"host one was lost":    {Lost: []string{"one"}},
		"host one was stopped": {Lost: []string{"one"}, Stopped: []string{"one"}},
	} {
		w := newWorld(4)
		script(t, w, Settings{}, apply(20), func(r *rig) {
			w.fleet = activities.FleetView{Version: 2, Hosts: []activities.HostInfo{host("two", 4)}, Reserved: w.fleet.Reserved}
			r.SignalWorkflow(SignalFleetChanged, change)
		}, func(r *rig) {
			s := r.status()
			assert.Equal(t, 2, s.Serving)
			assert.Equal(t, why, s.Cause)
			for _, e := range s.Executors {
				assert.Equal(t, "two", e.Host)
			}
		})
	}
}

// TestAHostThatComesBackGetsExecutorsAgain: with all of a module on the other host, that one's loss
// would take all; and nothing moves when a host joins beside whose executors others are elsewhere.
func TestAHostThatComesBackGetsExecutorsAgain(t *testing.T) {
	w := newWorld(16)
	both := []activities.HostInfo{host("one", 16), host("two", 16)}
	joins := func(r *rig) {
		w.change(func() { w.fleet.Version++; w.fleet.Hosts = both })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{"one"}})
	}
	script(t, w, Settings{}, apply(500), func(r *rig) {
		w.change(func() {
			w.fleet = activities.FleetView{Version: 2, Hosts: []activities.HostInfo{host("two", 16)}, Reserved: w.fleet.Reserved}
		})
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Lost: []string{"one"}})
	}, func(r *rig) {
		assert.Equal(t, map[string]bool{"two": true}, hostsOf(r.status()))
		joins(r)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 3, s.Serving, s.Describe())
		assert.Contains(t, s.Cause, "host one has joined, and")
		assert.Equal(t, map[string]bool{"one": true, "two": true}, hostsOf(s))
		joins(r)
	}, func(r *rig) {
		assert.Equal(t, 3, r.status().Serving)
	})
}

func TestExecutorEndedIsReplaced(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		name := r.status().Executors[0].Executor
		r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(name, 1), Executor: name, Reason: "out of memory"})
		r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: "executor/of/long/ago", Reason: "drained"})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "out of memory")
		assert.Equal(t, 1, s.Decisions[1].Start)
	})
}

func TestRepairWhenTheLatestSpecDoesNotFit(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{RetryAfter: time.Hour}, apply(20), func(r *rig) {
		r.update(UpdateRescale, RescaleRequest{Rate: 5000})
	}, func(r *rig) {
		name := r.status().Executors[0].Executor
		r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(name, 1), Executor: name, Reason: "out of memory"})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 2, len(s.Executors), "the plan that serves is whole again")
		require.NotNil(t, s.Failure, "and the latest spec still waits")
		assert.Equal(t, 20.0, w.installed[len(w.installed)-1].Pipeline.Rate)
		for _, e := range s.Executors {
			w.runs(t, e.Executor, true)
		}
	})
}

func TestInfeasibleWaitsForAnotherSpec(t *testing.T) {
	w := newWorld(4)
	hopeless := traffic(20)
	hopeless.Pipeline.SLO = time.Millisecond
	script(t, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: hopeless})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Waiting, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type)
		assert.True(t, s.Failure.RetryAt.IsZero())
		apply(20)(r)
	}, func(r *rig) {
		assert.Equal(t, Serving, r.status().Phase)
		assert.Nil(t, r.status().Failure)
	})
}

// offer sends what a gateway measures in a minute of so many requests per second.
func (r *rig) offer(rate float64) {
	now := r.Now()
	for from := now; from.Before(now.Add(time.Minute)); from = from.Add(10 * time.Second) {
		m := autoscale.Measures{Pipeline: "traffic", From: from, To: from.Add(10 * time.Second), Offered: rate, Arrived: int64(10 * rate)}
		r.at(m.To.Sub(now), func() { r.SignalWorkflow(SignalMeasures, m) })
	}
}

func TestDriftReschedules(t *testing.T) {
	w := newWorld(4)
	steps := []func(*rig){apply(20)}
	for range 6 { // after the cool-down of a new plan
		steps = append(steps, func(r *rig) { r.offer(61) })
	}
	steps = append(steps, func(r *rig) {
		s := r.status()
		assert.Equal(t, 61.0, s.Rate)
		assert.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "the load changed: rate 61/s")
		require.NotNil(t, s.Measures)
	})
	script(t, w, Settings{}, steps...)
}

// Streams that are declared may open at any time: fewer are planned for at no time, and more in whole
// ones.
func TestStreamsStayPlannedFor(t *testing.T) {
	w := newWorld(4)
	spec := traffic(20)
	spec.Pipeline.Stream = pipelines.Stream{Rate: 5, Count: 4}
	steps := []func(*rig){func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: spec}) }}
	for range 6 {
		steps = append(steps, func(r *rig) { r.offer(5) })
	}
	steps = append(steps, func(r *rig) {
		assert.Equal(t, 1, r.status().Serving)
		assert.InDelta(t, 20, r.status().Rate, 0)
	})
	for range 6 {
		steps = append(steps, func(r *rig) { r.offer(61) })
	}
	steps = append(steps, func(r *rig) {
		assert.InDelta(t, 65, r.status().Rate, 0)
		assert.Equal(t, 2, r.status().Serving)
	})
	script(t, w, Settings{}, steps...)
}

// A load that doubles is planned for as soon as requests are lost, without a word from the clock.
func TestARiseIsFollowedAtOnce(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		now := r.Now()
		for i, spans := range []time.Duration{0, time.Second, 2 * time.Second} {
			to := now.Add(spans + time.Second)
			m := autoscale.Measures{Pipeline: "traffic", From: to.Add(-10 * time.Second), To: to, Offered: 25, Latest: &autoscale.Latest{From: to.Add(-time.Second), To: to}}
			m.Latest.Counts = size.Counts{Arrived: []int64{30, 40, 40}[i], Ended: 40, Lost: 20}
			r.at(spans+time.Second, func() { r.SignalWorkflow(SignalMeasures, m) })
		}
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, "once")
		assert.Equal(t, 53.0, s.Rate)
		assert.Equal(t, "the load changed: rate 40/s for 2s, planned 20/s, 50 % lost; to have some in reserve 53/s are planned for", s.Cause)
	})
}

// latest sends what a gateway counts for so many seconds, one by one.
func (r *rig) latest(rate float64, seconds int) {
	now := r.Now()
	for i := range seconds {
		to := now.Add(time.Duration(i+1) * time.Second)
		m := autoscale.Measures{Pipeline: "traffic", From: to.Add(-time.Second), To: to, Offered: rate, Arrived: int64(rate), Latest: &autoscale.Latest{From: to.Add(-time.Second), To: to}}
		m.Latest.Counts = size.Counts{Arrived: int64(rate), Ended: int64(rate), Lost: max(0, int64(rate)-20)}
		r.at(to.Sub(now), func() { r.SignalWorkflow(SignalMeasures, m) })
	}
}

// A burst for which there are no devices leaves nothing behind.
func TestABurstThatCannotBeServedIsForgotten(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20), func(r *rig) { r.latest(4000, 3) }, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure, s.Describe())
		assert.Contains(t, s.Failure.Reason, "4200 requests per second need 26 cpu, 4 exist")
		r.latest(20, 59)
	}, func(r *rig) { r.latest(20, 59) }, func(r *rig) {
		s := r.status()
		assert.Nil(t, s.Failure)
		assert.Equal(t, 20.0, s.Rate)
		assert.Equal(t, "the load is as planned again", s.Cause)
	})
}

// Requests that are split into more items than declared are reported and planned for.
func TestAFanoutThatDriftsReschedules(t *testing.T) {
	w := newWorld(4)
	spec := traffic(20)
	at := len(spec.Pipeline.Modules) - 1
	spec.Pipeline.Modules[at].Scatter, spec.Pipeline.Modules[at].Fanout, spec.Pipeline.Modules[at].Most = true, 1, 2
	name := spec.Pipeline.Modules[at].Name
	script(t, w, Settings{}, func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: spec}) }, func(r *rig) {
		now := r.Now()
		for i := range 4 {
			to := now.Add(time.Duration(i+1) * 5 * time.Second)
			m := autoscale.Measures{Pipeline: "traffic", From: to.Add(-5 * time.Second), To: to, Offered: 20, Arrived: 100, Completed: 70, Dropped: 30,
				Modules: []autoscale.ModuleMeasures{{Name: name, Items: []autoscale.ItemCount{{Items: 1, Times: 50}, {Items: 4, Times: 50}}}}}
			m.SetAttainment()
			r.at(to.Sub(now), func() { r.SignalWorkflow(SignalMeasures, m) })
		}
		r.at(21*time.Second, func() {
			s := r.status()
			assert.Equal(t, 2, s.Serving)
			assert.Equal(t, "the fan-out changed: "+name+": 4 items at most in a request, planned for 2", s.Cause)
		})
	}, func(r *rig) {
		served := w.installed[1].Pipeline.Module(name)
		assert.Equal(t, 2.5, served.Fanout)
		assert.Equal(t, 4, served.Items.Largest())
	})
}

func TestSilenceIsNoDrift(t *testing.T) {
	w := newWorld(4)
	steps := []func(*rig){apply(20)}
	for range 6 {
		steps = append(steps, func(r *rig) {
			now := r.Now()
			r.SignalWorkflow(SignalMeasures, autoscale.Measures{Pipeline: "traffic", From: now.Add(-time.Minute), To: now})
		})
	}
	steps = append(steps, func(r *rig) { assert.Equal(t, 1, r.status().Serving) })
	script(t, w, Settings{}, steps...)
}

func TestDrainAndResume(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		r.update(UpdateDrain, "maintenance")
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Drained, s.Phase)
		assert.Empty(t, s.Executors)
		assert.Zero(t, s.Serving)
		assert.Empty(t, w.reserved("pipeline/traffic"))
		assert.Equal(t, []string{"traffic"}, w.removed)
		r.update(UpdateRescale, RescaleRequest{Rate: 20})
	}, func(r *rig) {
		assert.Equal(t, Serving, r.status().Phase)
	})
	first, again := w.installed[0], w.installed[1]
	assert.True(t, first.Age().Before(w.since[0]), "what was drained is not installed again, should an order come late")
	assert.False(t, again.Age().Before(w.since[0]))
}

func TestALifeBeginsAnew(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20)) // and it is deleted
	script(t, w, Settings{}, apply(20))
	require.Len(t, w.installed, 2)
	first, second := w.installed[0], w.installed[1]
	require.Equal(t, first.Generation, second.Generation)
	assert.True(t, first.Age().Before(second.Age()))
	require.Len(t, w.since, 2)
	assert.True(t, first.Age().Before(w.since[0]))
	assert.False(t, second.Age().Before(w.since[0]))
	assert.True(t, second.Age().Before(w.since[1]))
	assert.NotEqual(t, first.Slots[0].Executor, second.Slots[0].Executor)
}

func TestGatewayRestartReinstalls(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		r.SignalWorkflow(SignalGatewayStarted, "127.0.0.1:7001")
	}, func(r *rig) {
		require.Equal(t, 2, len(w.installed))
		assert.Equal(t, w.installed[0].Generation, w.installed[1].Generation)
		assert.Equal(t, Serving, r.status().Phase)
	})
}

func TestContinueAsNew(t *testing.T) {
	w := newWorld(4)
	r := newRig(t, w)
	r.at(0, func() { r.update(UpdateApply, ApplyRequest{Spec: traffic(20)}) })
	r.ExecuteWorkflow(TypeService, State{Kind: scheduler.KindPipeline, Name: "traffic", Settings: Settings{ContinueAfter: 1}})
	require.True(t, r.IsWorkflowCompleted())
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &again)
	var state State
	require.NoError(t, fromPayloads(again, &state))
	require.NotNil(t, state.Serving)
	assert.Equal(t, Serving, state.Phase)
	assert.Equal(t, 1, len(w.installed))

	next := newRig(t, w)
	next.continued = true
	next.at(time.Second, func() {
		s := next.status()
		assert.Equal(t, 1, s.Serving)
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 1, len(s.Decisions))
		next.update(UpdateRescale, RescaleRequest{Rate: 150})
	})
	next.at(time.Minute, func() {
		assert.Equal(t, 2, next.status().Serving)
		next.update(UpdateDelete, "")
	})
	state.Settings.ContinueAfter = 0
	next.ExecuteWorkflow(TypeService, state)
	require.NoError(t, next.GetWorkflowError())
	assert.Equal(t, 1, len(w.profiled), "profiles go along")
}
