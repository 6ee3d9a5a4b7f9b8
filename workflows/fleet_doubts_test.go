package workflows

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// TestADoubtedHost: one that does not answer is signalled to its workflow, once however
// many gateways report it; one that answers, that nothing could replace, or that has joined
// again is left alone.
func TestADoubtedHost(t *testing.T) {
	slot := placement.Slot{Executor: "e", Pipeline: "traffic", Module: "detect", Hardware: "cpu", Host: "one", Device: "cpu/0", Share: 1}
	for name, c := range map[string]struct {
		hosts  []activities.HostInfo
		told   []string // who is doubted, a second apart
		silent bool     // it does not answer
		joins  bool     // before it would have had to answer
		takes  time.Duration
		old    bool // a control that cannot wait for less than a second
		asked  int
		ends   int
	}{
		"does not answer":      {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, silent: true, asked: 1, ends: 1},
		"answers":              {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, asked: 1},
		"answers soon enough":  {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, takes: 400 * time.Millisecond, asked: 1},
		"answers too late":     {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, takes: 600 * time.Millisecond, asked: 1, ends: 1},
		"answers an old one":   {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, takes: 600 * time.Millisecond, old: true, asked: 1},
		"silent to an old one": {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, silent: true, old: true, asked: 1, ends: 1},
		"by several":           {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one", "one", "one"}, asked: 1},
		"has joined again":     {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"one"}, silent: true, joins: true, asked: 1},
		"nothing replaces it":  {hosts: []activities.HostInfo{fleetHost("one", 1)}, told: []string{"one"}, silent: true},
		"nothing runs there":   {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"two"}, silent: true, asked: 1, ends: 1},
		"not in the fleet":     {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: []string{"three"}, silent: true},
		"again, later":         {hosts: []activities.HostInfo{fleetHost("one", 1), fleetHost("two", 1)}, told: slices.Repeat([]string{"one"}, 12), asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFleetRig()
			r.takes, r.noPause = c.takes, c.old
			r.answered()
			asked := 0
			r.answer = func() error {
				asked++
				if c.joins {
					r.update(activities.FleetJoin, fleetHost("one", 1))
				}
				if c.silent {
					return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil)
				}
				return nil
			}
			at := func(d time.Duration, f func()) { r.RegisterDelayedCallback(f, d) }
			at(0, func() {
				for _, h := range c.hosts {
					r.update(activities.FleetJoin, h)
				}
				r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/traffic", Slots: []placement.Slot{slot}})
			})
			for i, host := range c.told {
				at(time.Duration(1+i)*time.Second, func() { r.SignalWorkflow(activities.FleetDoubt, host) })
			}
			at(time.Minute, func() {
				r.SetContinueAsNewSuggested(true)
				r.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
			})
			r.ExecuteWorkflow(TypeFleet, nil)
			require.ErrorAs(t, r.GetWorkflowError(), new(*workflow.ContinueAsNewError))
			assert.Equal(t, c.asked, asked)
			var lost []string
			if c.ends > 0 {
				lost = slices.Repeat([]string{c.told[0] + " " + unanswered}, c.ends)
			}
			assert.Equal(t, lost, r.silent)
		})
	}
}

// TestASilentHostIsLostAtOnce: its workflow does not wait for the heartbeats to stop.
func TestASilentHostIsLostAtOnce(t *testing.T) {
	env := quietFleet()
	env.RegisterWorkflowWithOptions(Host, workflow.RegisterOptions{Name: TypeHost})
	env.RegisterActivityWithOptions(func(context.Context, activities.HostInfo) error { return nil }, activity.RegisterOptions{Name: "HoldHost"})
	env.OnActivity("HoldHost", mock.Anything, mock.Anything).Return(nil).After(time.Hour)
	env.OnSignalExternalWorkflow(mock.Anything, activities.FleetID, "", signalHostLost, hostLost{Name: "one", Incarnation: 3, Reason: unanswered}).Return(nil).Once()
	began := env.Now()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(signalSilent, unanswered) }, time.Minute)
	env.ExecuteWorkflow(TypeHost, HostInput{Info: fleetHost("one", 1), Incarnation: 3})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, time.Minute, env.Now().Sub(began))
	env.AssertExpectations(t)
}
