package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// trial is traffic with a looser objective that is tried on a tenth of requests.
func trial(change func(*pipelines.Update)) scheduler.Spec {
	s := traffic(20)
	s.Pipeline.SLO += time.Second
	s.Pipeline.Update = pipelines.Update{Canary: 0.1, Hold: 5 * time.Minute}
	if change != nil {
		change(&s.Pipeline.Update)
	}
	return s
}

func applyTrial(change func(*pipelines.Update)) func(*rig) {
	return func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: trial(change)}) }
}

// sees sends what a gateway saw of generation 2 beside one that is always in time.
func sees(gateway string, requests, inTime int64) func(*rig) {
	return func(r *rig) {
		r.SignalWorkflow(SignalMeasures, autoscale.Measures{
			Pipeline: "traffic", Gateway: gateway, Generation: 1, Offered: 20, Attainment: 1, To: r.Now(),
			Canary: &rollout.Seen{Generation: 2, Stable: rollout.Tally{Requests: 1000, InTime: 1000}, Canary: rollout.Tally{Requests: requests, InTime: inTime}},
		})
	}
}

// installedAs are the names and generations that the gateway was given.
func (w *world) installedAs() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.installed {
		all = append(all, d.Pipeline.Name+" "+strings.Repeat("i", d.Generation))
	}
	return all
}

// A change that makes requests late is taken back by itself, and what served is in force
// as before; nothing of the trial is left.
func TestTrialIsTakenBack(t *testing.T) {
	w := newWorld(8)
	stable := 0
	script(t, w, Settings{}, apply(20), func(r *rig) {
		stable = w.count()
		applyTrial(nil)(r)
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Trial, s.Describe())
		assert.Equal(t, Trying, s.Phase)
		assert.Equal(t, 1, s.Serving)
		assert.Equal(t, []string{"traffic i", "traffic@canary ii"}, w.installedAs())
		assert.Equal(t, 2.0, w.installed[1].Pipeline.Rate, "a tenth")
		assert.Equal(t, []pipelines.Update{{Canary: 0.1, Hold: 5 * time.Minute}}, w.tried)
		assert.NotEmpty(t, w.reserved("pipeline/traffic@canary"))
		assert.Greater(t, w.count(), stable)
		sees("g1", 10, 5)(r)
	}, func(r *rig) {
		require.NotNil(t, r.status().Trial, "too few for a verdict")
		sees("g1", 30, 15)(r)
	}, func(r *rig) {
		s := r.status()
		require.Nil(t, s.Trial)
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 1, s.Serving)
		require.NotNil(t, s.Failure)
		assert.Equal(t, 2, s.Failure.Generation)
		assert.Contains(t, s.Failure.Reason, "taken back: generation 2 attains 50 % of 30 requests, the one before 100 % of 1000, below the 98 %")
		assert.True(t, s.Failure.RetryAt.IsZero(), "it is not tried again by itself")
		last := s.Decisions[len(s.Decisions)-1]
		assert.Equal(t, s.Failure.Reason, last.Failure)
		assert.Equal(t, []string{"traffic i", "traffic@canary ii"}, w.installedAs(), "nothing else was installed")
		assert.Equal(t, pipelines.Update{}, w.tried[len(w.tried)-1])
		assert.Equal(t, []string{"traffic@canary"}, w.removed)
		assert.Empty(t, w.reserved("pipeline/traffic@canary"))
		w.counts(t, stable)
		assert.Equal(t, []int{1}, generations(s))
		r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(s.Executors[0].Executor, 1), Reason: "killed"})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 3, s.Serving, "what heals afterwards")
		assert.Equal(t, traffic(20).SLO(), w.installed[len(w.installed)-1].Pipeline.SLO, "heals what served")
		assert.Equal(t, []int{1}, generations(s), "what was taken back has not served")
	})
}

// A change that does well is carried out when its time is over, and its devices go back.
func TestTrialIsPromoted(t *testing.T) {
	w := newWorld(8)
	w.gateways = append(w.gateways, gatewayMember("g2"))
	script(t, w, Settings{}, apply(20), applyTrial(nil),
		sees("g1", 15, 15), sees("g2", 15, 15), func(r *rig) {
			s := r.status()
			require.NotNil(t, s.Trial, s.Describe())
			assert.Equal(t, rollout.Tally{Requests: 30, InTime: 30}, s.Trial.Canary, "of both gateways")
		}, wait, wait, wait, wait, wait, func(r *rig) {
			s := r.status()
			require.Nil(t, s.Trial, s.Describe())
			assert.Equal(t, 2, s.Serving)
			assert.Nil(t, s.Failure)
			as := w.installedAs()
			assert.Equal(t, "traffic ii", as[len(as)-1])
			assert.Contains(t, w.removed, "traffic@canary")
			assert.Empty(t, w.reserved("pipeline/traffic@canary"))
			w.counts(t, len(s.Executors))
			assert.Equal(t, []int{1, 2}, generations(s))
		})
}

func wait(*rig) {}

// triedTakes sends, for a minute, that requests of both generations are in time, and how long
// batches of module detect of the one that is tried take.
func triedTakes(d time.Duration) func(*rig) {
	return func(r *rig) {
		now := r.Now()
		for from := now; from.Before(now.Add(time.Minute)); from = from.Add(10 * time.Second) {
			m := autoscale.Measures{
				Pipeline: "traffic", Gateway: "g1", Generation: 1, From: from, To: from.Add(10 * time.Second), Offered: 20, Arrived: 200, Attainment: 1,
				Canary: &rollout.Seen{Generation: 2, Stable: rollout.Tally{Requests: 1000, InTime: 1000}, Canary: rollout.Tally{Requests: 100, InTime: 100}},
				Tried:  []autoscale.ModuleMeasures{{Name: "detect", Durations: []autoscale.BatchDuration{{Hardware: "cpu", Size: 1, Batches: 20, P50: d, P95: d}}}},
			}
			r.at(m.To.Sub(now), func() { r.SignalWorkflow(SignalMeasures, m) })
		}
	}
}

// With a share of the requests a module may be slow and all in time; with all of them it
// is not. So what it takes is planned with before it gets them.
func TestTrialIsJudgedForAllRequests(t *testing.T) {
	spec := func(change func(*pipelines.Update)) func(r *rig) {
		s := trial(change)
		s.Pipeline.SLO = traffic(20).SLO()
		s.Pipeline.Update.Hold = 110 * time.Second
		return func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: s}) }
	}
	t.Run("none bears it", func(t *testing.T) {
		w := newWorld(3)
		script(t, w, Settings{}, apply(20), spec(nil), triedTakes(150*time.Millisecond), wait, func(r *rig) {
			s := r.status()
			require.NotNil(t, s.Failure, s.Describe())
			assert.Contains(t, s.Failure.Reason, "taken back: detect takes 150 ms, profiled 10 ms (batches of 1 on cpu, for 30s); planned with that for all requests: 20 requests per second need 4 cpu, 3 exist")
			assert.Equal(t, 1, s.Serving)
		})
	})
	t.Run("it costs more", func(t *testing.T) {
		w := newWorld(30)
		script(t, w, Settings{}, apply(20), spec(func(u *pipelines.Update) { u.Revert.Cost = 1.2 }), triedTakes(100*time.Millisecond), wait, func(r *rig) {
			s := r.status()
			require.NotNil(t, s.Failure, s.Describe())
			assert.Contains(t, s.Failure.Reason, "planned with that for all requests: a request costs")
		})
	})
	t.Run("there is room", func(t *testing.T) {
		w := newWorld(30)
		script(t, w, Settings{}, apply(20), spec(nil), triedTakes(50*time.Millisecond), wait, func(r *rig) {
			s := r.status()
			require.Nil(t, s.Failure, s.Describe())
			assert.Equal(t, 2, s.Serving)
			assert.Equal(t, 50*time.Millisecond, s.Healed[0].Measured)
		})
	})
}

// Whatever ends a trial, nothing of it is left, and one generation serves.
func TestTrialEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*pipelines.Update)
		during  func(*rig)
		serving int
		says    string // of the failure
	}{
		"an executor of it ends": {nil, func(r *rig) {
			slots := r.world.reserved("pipeline/traffic@canary")
			r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(slots[0].Executor, 2), Reason: "out of memory"})
		}, 1, "ended: out of memory"},
		"another change is applied": {nil, slower(2 * time.Second), 3, ""},
		"it is rolled back":         {nil, func(r *rig) { r.update(UpdateRollback, RollbackRequest{}) }, 3, ""},
		"no requests":               {func(u *pipelines.Update) { u.Hold = 10 * time.Second }, wait, 2, ""},
		"it costs more":             {func(u *pipelines.Update) { u.Revert.Cost = 0.001 }, wait, 1, "a request costs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(8)
			script(t, w, Settings{}, apply(20), applyTrial(c.change), c.during, wait, func(r *rig) {
				s := r.status()
				require.Nil(t, s.Trial, s.Describe())
				assert.Equal(t, c.serving, s.Serving, s.Describe())
				if c.says != "" {
					require.NotNil(t, s.Failure)
					assert.Contains(t, s.Failure.Reason, c.says)
				} else {
					assert.Nil(t, s.Failure)
				}
				assert.Empty(t, w.reserved("pipeline/traffic@canary"))
				w.counts(t, len(s.Executors))
				if len(w.tried) > 0 {
					assert.Equal(t, pipelines.Update{}, w.tried[len(w.tried)-1])
				}
			})
		})
	}
}

// Changes that follow from measurements are not tried first; the update block is for
// applied ones.
func TestOnlyWhatIsAppliedIsTried(t *testing.T) {
	w := newWorld(8)
	steps := []func(*rig){func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: trial(nil)}) }}
	for range 6 {
		steps = append(steps, func(r *rig) { r.offer(61) })
	}
	script(t, w, Settings{}, append(steps, func(r *rig) {
		assert.Equal(t, 2, r.status().Serving, r.status().Describe())
		assert.Empty(t, w.tried)
	})...)
}

// A trial on a device that something else uses could make its requests late.
func TestTrialHasDevicesOfItsOwn(t *testing.T) {
	w := newWorld(1)
	script(t, w, Settings{}, apply(20), applyTrial(nil), func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving)
		require.NotNil(t, s.Failure)
		assert.Equal(t, "to try it first on devices that nothing else uses: no host has a device of the hardware that is declared; start a worker on a host that has one", s.Failure.Reason)
		w.change(func() { w.fleet.Hosts = append(w.fleet.Hosts, host("two", 1)) })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{"two"}})
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Trial, s.Describe())
		for _, slot := range w.reserved("pipeline/traffic@canary") {
			assert.Equal(t, "two", slot.Host)
		}
	})
}

// Without the devices that a trial needs the change fails with that reason, and what serves
// goes on.
func TestTrialNeedsDevices(t *testing.T) {
	w := newWorld(2)
	script(t, w, Settings{}, apply(20), func(r *rig) {
		w.change(func() { w.prepareErr = activitiesNotReady() })
		applyTrial(nil)(r)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving)
		require.NotNil(t, s.Failure)
		assert.False(t, s.Failure.RetryAt.IsZero())
		w.change(func() { w.prepareErr = nil })
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Trial, "it is tried again, and not carried out untried: %s", s.Describe())
	})
}
