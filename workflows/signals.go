package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

func signalNames() []string {
	return []string{SignalMeasures, SignalFleetChanged, SignalExecutorEnded, SignalGatewayStarted, SignalProgress, SignalMissing}
}

// receiveSignals starts the goroutines that receive signals.
func (s *service) receiveSignals(ctx workflow.Context) {
	for _, name := range signalNames() {
		workflow.Go(ctx, func(ctx workflow.Context) {
			ch := workflow.GetSignalChannel(ctx, name)
			for {
				s.receive(ctx, name, func(into any) bool { return ch.Receive(ctx, into) })
			}
		})
	}
}

// receivePending receives the signals that have arrived and were not received
// yet.
func (s *service) receivePending(ctx workflow.Context) {
	for _, name := range signalNames() {
		ch := workflow.GetSignalChannel(ctx, name)
		for s.receive(ctx, name, ch.ReceiveAsync) {
		}
	}
}

// receive takes one signal and notes it; false when there was none.
func (s *service) receive(ctx workflow.Context, name string, from func(any) bool) (received bool) {
	switch name {
	case SignalMeasures:
		var m autoscale.Measures
		if received = from(&m); received {
			all := s.together(ctx, m)
			s.sawTrial(m, all)
			s.measured(ctx, all)
		}
	case SignalFleetChanged:
		var c FleetChange
		if received = from(&c); received {
			s.fleetChanged(ctx, c)
			s.gatewaysChanged(ctx, c)
		}
	case SignalExecutorEnded:
		var e executorEnded
		if received = from(&e); received {
			s.Ended[e.Workflow] = e.Reason
		}
	case SignalGatewayStarted:
		var address string
		if received = from(&address); received {
			s.Settings.Gateway = cmp.Or(address, s.Settings.Gateway)
			s.Reinstall = true
		}
	case SignalMissing:
		var m Missing
		if received = from(&m); received {
			s.missing(ctx, m)
		}
	case SignalProgress:
		var phase Phase
		if received = from(&phase); received && s.Phase == Planning {
			s.setPhase(ctx, phase)
		}
	}
	if received {
		s.Handled++
	}
	return received
}

func (s *service) fleetChanged(ctx workflow.Context, c FleetChange) {
	for _, r := range s.Running {
		if slices.Contains(c.Restarted, r.Slot.Host) {
			s.hearAgain(ctx, r, workflow.SignalExternalWorkflow(ctx, r.Workflow, "", SignalHostRestarted, nil))
		}
	}
	if c.Anew {
		s.Met, s.Astray = false, cmp.Or(s.Astray, anew)
	}
	s.Lost = append(s.Lost, c.Lost...)
	s.Leaving = append(s.Leaving, c.Leaving...)
	s.Joined = s.Joined || len(c.Joined) > 0 || c.Offers
	switch {
	case len(c.Joined) > 0:
		s.hostsCame(ctx, "a host has joined")
	case c.Offers:
		s.hostsCame(ctx, "hosts can be made")
	}
}

// patchShort marks services that are planned anew when hosts come of which what serves
// could use more.
const patchShort = "short of devices"

// tryAgain has what has failed tried again now, after what serves is mended.
func (s *service) tryAgain(ctx workflow.Context) {
	if s.Mend == "" && s.broken() && s.refused(ctx) {
		s.again(ctx, s.lack())
	}
	s.RetryAt, s.Pending = time.Time{}, true
}

// hostsCame has what lacks devices planned anew, when a host has joined or could be made.
func (s *service) hostsCame(ctx workflow.Context, what string) {
	switch {
	case s.Pending || s.Stop != "" || s.Stopping != "":
	case s.Failure != nil:
		if s.Mend == "" && s.refused(ctx) && runsShort(s.Serving.Plan) {
			s.again(ctx, what+", and devices are lacking")
		}
		s.tryAgain(ctx)
	case s.Serving != nil && runsShort(s.Serving.Plan) && workflow.GetVersion(ctx, patchShort, workflow.DefaultVersion, 1) != workflow.DefaultVersion:
		s.replan(what + ", and devices are lacking")
	}
}
