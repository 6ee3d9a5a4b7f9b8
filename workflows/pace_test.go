package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// takes lets the gateway report durations of batches of one request of a module for a
// minute, at the planned rate.
func takes(module string, d time.Duration) func(*rig) {
	return func(r *rig) {
		now := r.Now()
		for at := 5 * time.Second; at < time.Minute; at += 5 * time.Second {
			m := autoscale.Measures{Pipeline: "traffic", From: now.Add(at - 10*time.Second), To: now.Add(at), Offered: 20, Arrived: 200,
				Modules: []autoscale.ModuleMeasures{{Name: module, Durations: []autoscale.BatchDuration{{Hardware: "cpu", Size: 1, Batches: 60, P50: d, P95: d}}}}}
			r.at(at, func() { r.SignalWorkflow(SignalMeasures, m) })
		}
	}
}

func TestSlowExecutorsVoidThePromiseAndArePlannedAround(t *testing.T) {
	w := newWorld(4)
	w.engine = "onnxruntime"
	script(t, w, Settings{}, apply(20), func(r *rig) {
		takes("detect", 19*time.Millisecond)(r)
		r.at(36*time.Second, func() {
			s := r.status()
			assert.Equal(t, 2, s.Serving)
			assert.Contains(t, s.Cause, "promise void because detect takes 19 ms, profiled 10 ms (batches of 1 on cpu, for ")
			assert.Empty(t, s.Void, "the new plan counts on it")
		})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving, "once")
		require.Len(t, s.Healed, 1)
		assert.Equal(t, "detect", s.Healed[0].Module)
		assert.Contains(t, s.Describe(), "detect is planned with ")
		assert.Contains(t, s.Describe(), "as measured while it serves; its profile says ")
		served := w.installed[1].Pipeline
		assert.Equal(t, 19*time.Millisecond, served.Module("detect").Profile.Points[0].Duration)
		require.Len(t, w.kept, 1, "for the next time")
		assert.Equal(t, "detect", w.kept[0].Module)
		assert.Equal(t, served.Module("detect").Profile.Points, w.kept[0].Points)
		takes("detect", 5*time.Millisecond)(r)
	}, func(*rig) {}, func(r *rig) {
		assert.Contains(t, r.status().Cause, "measured while serving: detect takes 5 ms, profiled ")
		next := traffic(20)
		next.Pipeline.Modules[0].Batches = []int{1, 2}
		r.update(UpdateApply, ApplyRequest{Spec: next})
	}, func(r *rig) {
		assert.Empty(t, r.status().Healed, "another module is measured again")
	})
}

func TestModulesAreMeasuredAnew(t *testing.T) {
	w := newWorld(4)
	w.engine = "onnxruntime"
	var none, again *reply
	script(t, w, Settings{}, func(r *rig) {
		none = r.update(UpdateProfile, "")
	}, apply(20), func(r *rig) {
		assert.ErrorContains(t, none.rejected, "nothing to measure")
		assert.Equal(t, []string{"detect@cpu"}, w.profiled)
		takes("detect", 19*time.Millisecond)(r)
	}, func(r *rig) {
		assert.Len(t, r.status().Healed, 1)
		again = r.update(UpdateProfile, "it is calm now")
	}, func(r *rig) {
		require.NoError(t, again.rejected)
		assert.Equal(t, []string{"detect@cpu", "detect@cpu again"}, w.profiled)
		s := r.status()
		assert.Equal(t, again.Generation, s.Serving)
		assert.Equal(t, "it is calm now", s.Cause)
		assert.Empty(t, s.Healed)
	})
}

func TestAProfileOnFileIsNeverTakenToBeSlowerThanItIs(t *testing.T) {
	w := newWorld(4)
	w.engine = "onnxruntime"
	script(t, w, Settings{}, apply(20), takes("vehicle", 5*time.Millisecond), func(r *rig) {
		assert.Equal(t, 1, r.status().Serving, "used as it is")
		takes("vehicle", 19*time.Millisecond)(r)
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "promise void because vehicle takes 19 ms, profiled 10 ms")
		assert.Len(t, s.Healed, 1)
		assert.Empty(t, w.kept, "the file is the user's")
		takes("vehicle", 7*time.Millisecond)(r)
	}, func(*rig) {}, takes("vehicle", 7*time.Millisecond), func(r *rig) {
		s := r.status()
		assert.Equal(t, 3, s.Serving)
		assert.Empty(t, s.Healed, "back at the file")
		served := w.installed[2].Pipeline
		assert.Equal(t, points("cpu")[0].Duration, served.Module("vehicle").Profile.Points[0].Duration)
	})
}

func TestVoidPromisesThatNobodyPlansAround(t *testing.T) {
	for name, c := range map[string]struct {
		engine   string
		settings Settings
		takes    time.Duration
		slo      time.Duration
		asked    int // generation
	}{
		"emulated":                     {"emulated", Settings{}, 19 * time.Millisecond, 40 * time.Millisecond, 1},
		"fixed":                        {"onnxruntime", Settings{Fixed: true}, 19 * time.Millisecond, 40 * time.Millisecond, 1},
		"no plan could bear that time": {"onnxruntime", Settings{}, 900 * time.Millisecond, 25 * time.Millisecond, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(4)
			w.engine = c.engine
			tight := traffic(20)
			tight.Pipeline.SLO = c.slo
			steps := []func(*rig){
				func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: tight}) },
				takes("detect", c.takes), takes("detect", c.takes),
				func(r *rig) {
					s := r.status()
					assert.Equal(t, 1, s.Serving)
					require.Len(t, s.Void, 1)
					assert.Contains(t, s.Describe(), "promise void because detect takes ")
					takes("detect", 10*time.Millisecond)(r)
				},
				func(r *rig) {
					s := r.status()
					assert.Empty(t, s.Void)
					if c.asked > 1 {
						assert.Equal(t, c.asked, s.Requested.Generation, "requested once")
						r.update(UpdateRescale, RescaleRequest{Rate: 21})
					}
				},
				func(r *rig) {
					if c.asked > 1 {
						assert.Equal(t, c.asked+1, r.status().Serving, "executors have recovered")
						assert.Empty(t, r.status().Healed)
					}
				},
			}
			script(t, w, c.settings, steps...)
		})
	}
}

// come lets the gateway report for a minute requests with this variation, a part of them
// late.
func come(rate, variation float64, late int64) func(*rig) {
	return func(r *rig) {
		now := r.Now()
		for at := 5 * time.Second; at < time.Minute; at += 5 * time.Second {
			n := int64(10 * rate)
			m := autoscale.Measures{Pipeline: "traffic", From: now.Add(at - 10*time.Second), To: now.Add(at), Offered: rate, Arrived: n,
				Completed: n - late, Late: late, Gaps: &autoscale.Gaps{Compared: n, Variation: variation}}
			r.at(at, func() { r.SignalWorkflow(SignalMeasures, m) })
		}
	}
}

func TestArrivalsOtherThanDeclaredAreToldAndPlannedFor(t *testing.T) {
	w := newWorld(4)
	wait := func(*rig) {}
	script(t, w, Settings{}, apply(20), come(20, 1.1, 0), come(20, 1.1, 0), func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving, "it costs nobody anything")
		assert.Contains(t, s.Promise(), "requests come in more bursts than declared: squared variation of their gaps 1.1, declared 0 (for ")
		come(20, 1.1, 20)(r)
	}, come(20, 1.1, 20), wait, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "requests come in more bursts than declared")
		assert.Contains(t, s.Cause, "planned for poisson")
		assert.Equal(t, "poisson", w.installed[1].Pipeline.Arrivals)
		assert.NotContains(t, s.Promise(), "requests come", "the new plan counts on it")
		assert.Contains(t, s.Promise(), "promise not kept for ", "the gateway's reports do not get better")
		come(20, 1.1, 20)(r)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, "once")
		r.update(UpdateApply, ApplyRequest{Spec: traffic(20)})
	}, func(r *rig) {
		assert.Empty(t, w.installed[2].Pipeline.Arrivals, "what is applied counts")
	})
}

// A fixed plan follows no drift, but reports it.
func TestFixedPlansTellWhatIsOtherThanDeclared(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{Fixed: true}, apply(20), come(30, 1.1, 30), come(30, 1.1, 30), come(30, 1.1, 30), func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving)
		assert.Contains(t, s.Promise(), "requests come in more bursts than declared")
		assert.Contains(t, s.Promise(), "requests come otherwise than planned for: rate 30/s for ")
		assert.Contains(t, s.Promise(), ", planned 20/s")
	})
}

// misses lets the gateway report for half a minute that every request is late, and how many
// items reach module vehicle for each.
func misses(fanout float64) func(*rig) {
	return func(r *rig) {
		now := r.Now()
		for at := 5 * time.Second; at < 40*time.Second; at += 5 * time.Second {
			m := autoscale.Measures{Pipeline: "traffic", From: now.Add(at - 10*time.Second), To: now.Add(at), Offered: 20, Arrived: 200, Late: 200,
				Modules: []autoscale.ModuleMeasures{{Name: "detect", Rate: 20}, {Name: "vehicle", Rate: fanout * 20, Queue: autoscale.Percentiles{P99: time.Second}}}}
			r.at(at, func() { r.SignalWorkflow(SignalMeasures, m) })
		}
	}
}

// TestAPromiseThatIsNotKept is reported with its reason, and planned again where
// measurements lead to another plan; else the reason stays, and nothing changes.
func TestAPromiseThatIsNotKept(t *testing.T) {
	w := newWorld(8)
	spec := traffic(20)
	spec.Pipeline.Modules[1].Scatter, spec.Pipeline.Modules[1].Fanout = true, 2
	script(t, w, Settings{}, func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: spec}) }, misses(2), misses(2), misses(2), func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving, "the same numbers make the same plan")
		require.NotNil(t, s.Broken)
		assert.Equal(t, "vehicle", s.Broken.Module)
		assert.Contains(t, s.Describe(), "promise not kept for ")
		assert.Contains(t, s.Describe(), "vehicle keeps requests for 1000 ms")
		misses(3)(r)
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving)
		assert.Contains(t, s.Cause, "vehicle is sent 3 requests for each that it follows, declared 2")
		assert.InDelta(t, 3, w.installed[1].Pipeline.Module("vehicle").Fanout, 0.01)
		assert.Nil(t, s.Broken, "the new plan starts afresh")
	})
}
