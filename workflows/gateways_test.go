package workflows

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

func TestAGatewayThatJoinsIsToldWhatServes(t *testing.T) {
	w := newWorld(4)
	g1, g2 := gatewayMember("g1"), gatewayMember("g2")
	both := FleetChange{Members: true, Gateways: []activities.Member{g1, g2}, New: []activities.Member{g2}}
	script(t, w, Settings{}, func(r *rig) {
		apply(20)(r)
	}, func(r *rig) {
		require.Equal(t, 1, r.status().Serving)
		require.Len(t, w.installed, 1)
		require.Equal(t, []string{"traffic"}, w.announced, "it existed before it served")
		w.change(func() { w.gateways = []activities.Member{g1, g2} })
		r.SignalWorkflow(SignalFleetChanged, both)
	}, func(r *rig) {
		assert.Len(t, w.installed, 2, "installed on the new one only")
		assert.Equal(t, 1, w.installed[1].Generation)
		assert.Equal(t, Serving, r.status().Phase)
		for name, rate := range map[string]float64{"g1": 12, "g2": 8} {
			m := autoscale.Measures{Pipeline: "traffic", Gateway: name, From: r.Now().Add(-10 * time.Second), To: r.Now(), Offered: rate}
			r.SignalWorkflow(SignalMeasures, m)
		}
		r.at(time.Second, func() { assert.Equal(t, 20., r.status().Measures.Offered, "what both saw adds up") })
		r.at(2*time.Second, func() { r.update(UpdateRescale, RescaleRequest{Rate: 40}) })
	}, func(r *rig) {
		assert.Equal(t, 2, r.status().Serving)
		assert.Len(t, w.installed, 4, "a change reaches both")
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Gateways: []activities.Member{g1}})
	}, func(r *rig) {
		assert.Len(t, w.installed, 4, "that one goes changes nothing")
		r.update(UpdateDrain, "the night")
	}, func(r *rig) {
		assert.Equal(t, Drained, r.status().Phase)
		assert.Equal(t, []string{"traffic", "traffic"}, w.announced, "it exists, drained")
	})
	assert.Equal(t, []string{"traffic", "traffic"}, w.removed, "drained at the one that is left, and then deleted there")
}

func TestAChangeWithoutAGatewayIsTriedWhenOneJoins(t *testing.T) {
	w := newWorld(4)
	w.gateways = nil
	script(t, w, Settings{RetryAfter: time.Hour}, apply(20), func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.Contains(t, s.Failure.Reason, "harpagon gateway")
		g := gatewayMember("g1")
		w.change(func() { w.gateways = []activities.Member{g} })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Gateways: w.gateways, New: w.gateways})
	}, func(r *rig) {
		assert.Equal(t, 1, r.status().Serving)
	})
}

// TestNobodyWaitsForAGatewayThatWasReplaced holds that an installation on a process that
// was killed meanwhile does not hold up the one that has its name now.
func TestNobodyWaitsForAGatewayThatWasReplaced(t *testing.T) {
	for name, from := range map[string]int{"while a change moves traffic": 0, "while it installs what serves": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(4)
			instance := func(n string) activities.Member {
				g := gatewayMember("g1")
				g.Instance = n
				return g
			}
			becomes := func(r *rig, g activities.Member) {
				w.change(func() { w.gateways = []activities.Member{g} })
				r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Joined: []string{"one"}, Gateways: w.gateways, New: w.gateways})
			}
			killed, next := instance([]string{"1", "2"}[from]), instance("3")
			told, once := make(chan struct{}), sync.Once{}
			var r *rig
			w.installing = func(queue string) {
				switch queue {
				case killed.Queue():
					once.Do(func() { becomes(r, next) })
					select {
					case <-told: // a killed process answers nothing, a cancellation neither
					case <-time.After(time.Minute):
						t.Error("the other gets nothing as long as the one that was killed has not answered")
					}
				case next.Queue():
					close(told)
				}
			}
			steps := []func(r *rig){func(on *rig) { r = on; apply(20)(r) }}
			if from == 1 {
				steps = append(steps, func(r *rig) { becomes(r, killed) })
			}
			script(t, w, Settings{RetryAfter: time.Hour}, append(steps, func(r *rig) {
				s := r.status()
				assert.Equal(t, Serving, s.Phase)
				assert.Equal(t, 1, s.Serving)
			})...)
		})
	}
}

// TestGatewaysInstallWhileAnotherPlanIsSearched: what was refused before is tried again
// when a gateway joins, and the search may take long; what serves is installed at once.
func TestGatewaysInstallWhileAnotherPlanIsSearched(t *testing.T) {
	w := newWorld(4)
	g1, g2 := gatewayMember("g1"), gatewayMember("g2")
	r := newRig(t, w)
	long := mock.MatchedBy(func(in activities.PlanInput) bool { return in.Spec.Pipeline.Rate == tooMuch })
	r.OnActivity("Plan", mock.Anything, long).Return(new(activities.Planning).Plan).After(40 * time.Second)
	r.OnActivity("Plan", mock.Anything, mock.Anything).Return(new(activities.Planning).Plan)
	for i, step := range []func(){
		func() { apply(20)(r) },
		func() { r.update(UpdateApply, ApplyRequest{Spec: traffic(tooMuch)}) },
		func() {
			require.NotNil(t, r.status().Failure)
			w.change(func() { w.gateways = []activities.Member{g1, g2} })
			r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Gateways: w.gateways, New: []activities.Member{g2}})
			r.at(20*time.Second, func() {
				assert.Equal(t, Planning, r.status().Phase)
				require.Len(t, w.installed, 2, "it is installed meanwhile")
				assert.Equal(t, 1, w.installed[1].Generation)
			})
		},
		func() {
			assert.Equal(t, Serving, r.status().Phase)
			assert.Len(t, w.installed, 2, "and once")
			apply(30)(r)
		},
		func() {
			assert.Equal(t, 30., r.status().Rate)
			assert.Len(t, w.installed, 4, "a change reaches both")
			r.update(UpdateDelete, "over")
		},
	} {
		r.at(time.Duration(i)*time.Minute, step)
	}
	r.run(Settings{RetryAfter: time.Hour})
}

// TestAGatewayInstallsAServiceThatLacksExecutors: it waits for none that are known to be
// away, and is ready for what else serves.
func TestAGatewayInstallsAServiceThatLacksExecutors(t *testing.T) {
	g1, g2 := gatewayMember("g1"), gatewayMember("g2")
	for name, lose := range map[string]func(*world, *rig){
		"its host is lost": func(w *world, r *rig) {
			w.change(func() { w.fleet.Hosts = nil })
			r.SignalWorkflow(SignalFleetChanged, FleetChange{Lost: []string{"one"}})
		},
		"another gateway misses them": func(_ *world, r *rig) {
			r.SignalWorkflow(SignalMissing, Missing{Gateway: "g1", Generation: 1, Executors: []string{r.status().Executors[0].Executor}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(4)
			w.gateways = []activities.Member{g1}
			r := newRig(t, w)
			r.at(0, func() { apply(20)(r) })
			r.at(time.Minute, func() {
				w.change(func() { w.prepareErr = activitiesNotReady() })
				lose(w, r)
				w.change(func() { w.gateways, w.prepared = []activities.Member{g1, g2}, nil })
				r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Gateways: w.gateways, New: []activities.Member{g2}})
			})
			r.at(time.Minute+2*time.Second, func() {
				assert.Len(t, w.installed, 2)
				assert.Empty(t, w.prepared, "no gateway waits for executors")
			})
			r.at(2*time.Minute, func() { r.update(UpdateDelete, "over") })
			r.run(Settings{RetryAfter: time.Hour})
		})
	}
}
