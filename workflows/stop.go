package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// reinstall tells a gateway that has started anew what serves. It waits for
// the executors to come back, unless one turns out to be gone.
func (s *service) reinstall(ctx workflow.Context) {
	s.Reinstall = false
	if s.Serving == nil {
		return
	}
	s.setPhase(ctx, Reconciling)
	err := s.install(ctx, queues(ctx, s.Gateways), *s.Serving)
	switch {
	case err == nil:
		s.setPhase(ctx, Serving)
	case s.hasWork():
		s.Reinstall = true // after what is more urgent
	default:
		s.NotInstalled = true
		s.replan("the gateway started anew and could not serve the plan: " + reason(err))
	}
}

// install waits for the executors, where there are any, and moves traffic. A
// function's provider is not asked first: it may be back for the first request.
func (s *service) install(ctx workflow.Context, all []queue, serving Deployed) error {
	var gateway *activities.GatewayActivities
	d := serving.deployment()
	if len(d.Slots) > 0 {
		patience := cmp.Or(s.Settings.PrepareTimeout, DefaultPrepareTimeout)
		wait, cancel := workflow.WithCancel(ctx)
		defer cancel()
		ready := onGateways(wait, all, "wait until the executors have come back", patience, gateway.Prepare, d)
		if err := workflow.Await(ctx, func() bool { return ended(ready) || s.hasWork() }); err != nil {
			return err
		}
		if !ended(ready) {
			cancel()
		}
		if err := await(ctx, ready); err != nil {
			return err
		}
	}
	summary := fmt.Sprintf("install generation %d again", d.Generation)
	return await(ctx, onGateways(ctx, all, summary, installTimeout, gateway.Install, d))
}

// stop ends serving, and everything that runs. What goes wrong at the gateway
// does not keep it: the executors are cancelled either way.
func (s *service) stop(ctx workflow.Context) {
	stop := s.Stop
	s.Stop, s.Pending, s.RetryAt, s.Reinstall = "", false, time.Time{}, false
	s.setPhase(ctx, Draining)
	var gateway *activities.GatewayActivities
	log := workflow.GetLogger(ctx)
	all := queues(ctx, s.Gateways)
	if s.Serving != nil || s.several && len(all) > 0 {
		if err := await(ctx, onGateways(ctx, all, "finish the requests under way", releaseTimeout, gateway.Remove, s.Name)); err != nil {
			log.Warn("a gateway did not finish its requests", "error", err)
		}
	}
	if stop == StopDrain {
		s.announce(ctx, s.Gateways)
	}
	if len(s.Running) > 0 {
		if err := release(ctx, all, s.Name, slots(s.Running)); err != nil {
			log.Warn("executors did not finish in time", "error", err)
		}
	}
	cancelExecutors(ctx, s.Running)
	var fleet *activities.Fleet
	nothing := activities.Reservation{Service: ServiceID(s.Kind, s.Name), Forget: stop == StopDelete}
	if err := workflow.ExecuteActivity(shortActivity(ctx, "give the devices back"), fleet.Reserve, nothing).Get(ctx, nil); err != nil {
		log.Error("devices not given back", "error", err)
	}
	s.Serving, s.Running, s.Failure, s.NotInstalled = nil, nil, nil, false
	if stop == StopDelete {
		s.ended = true
		s.setPhase(ctx, Deleted)
		return
	}
	s.setPhase(ctx, Drained)
}
