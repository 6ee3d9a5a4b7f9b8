package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// reinstall installs what serves on a gateway that has started again. It waits for the
// executors to come back, unless one turns out to be gone.
func (s *service) reinstall(ctx workflow.Context) {
	s.Reinstall = false
	if s.Serving == nil {
		return
	}
	s.setPhase(ctx, Reconciling)
	err := s.install(ctx, gatewayQueues(ctx, s.Gateways, s.present), *s.Serving, s.hasWork)
	switch {
	case err == nil:
		s.setPhase(ctx, Serving)
	case s.hasWork():
		s.Reinstall = true // after what is more urgent
	default:
		s.NotInstalled = true
		s.again(ctx, "the gateway restarted and could not serve the plan: "+activities.Reason(err))
	}
}

// install waits for the executors, where there are any and until there is something more
// urgent, and moves traffic. A function's provider is not probed first: it may be back for
// the first request.
func (s *service) install(ctx workflow.Context, all []gatewayQueue, serving Deployed, urgent func() bool) error {
	var gateway *activities.GatewayActivities
	d := serving.Deployment()
	if len(d.Slots) > 0 {
		patience := cmp.Or(s.Settings.PrepareTimeout, DefaultPrepareTimeout)
		wait, cancel := workflow.WithCancel(ctx)
		defer cancel()
		ready := beginParts(wait, all, "wait until the executors have come back", patience, gateway.Prepare, d)
		if err := workflow.Await(ctx, func() bool { return partsEnded(ready) || urgent() }); err != nil {
			return err
		}
		if !partsEnded(ready) {
			cancel()
		}
		if err := awaitParts(ctx, ready); err != nil {
			return err
		}
	}
	summary := fmt.Sprintf("install generation %d again", d.Generation)
	return awaitParts(ctx, beginParts(ctx, all, summary, InstallTimeout, gateway.Install, d))
}

// stop ends serving, and everything that runs. What goes wrong at the gateway
// does not keep it: the executors are cancelled either way.
func (s *service) stop(ctx workflow.Context) {
	stop := s.Stop
	s.Stop, s.Stopping, s.Mend, s.Pending, s.RetryAt, s.Reinstall = "", stop, "", false, time.Time{}, false
	s.setPhase(ctx, Draining)
	var gateway *activities.GatewayActivities
	log := workflow.GetLogger(ctx)
	all := gatewayQueues(ctx, s.Gateways, s.present)
	if s.Serving != nil || s.several && len(all) > 0 {
		if err := awaitParts(ctx, beginParts(ctx, all, "finish the requests under way", ReleaseTimeout, gateway.Remove, s.Name, s.since(stop))); err != nil {
			log.Warn("a gateway did not finish its requests", "error", err)
		}
	}
	if stop == StopDrain {
		s.announce(ctx, s.Gateways)
	}
	if len(s.Running) > 0 {
		if err := releaseExecutors(ctx, all, s.Name, slotsOf(s.Running)); err != nil {
			log.Warn("executors did not finish in time", "error", err)
		}
	}
	cancelExecutors(ctx, s.Running)
	if s.Serving != nil {
		if err := deleteFunctions(ctx, s.Serving.Deployment().Function); err != nil {
			log.Error("functions are left at their provider", "error", err)
		}
	}
	var fleet *activities.Fleet
	nothing := activities.Reservation{Service: ServiceID(s.Kind, s.Name), Forget: stop == StopDelete}
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "give the devices back"), fleet.Reserve, nothing).Get(ctx, nil); err != nil {
		log.Error("devices not given back", "error", err)
	}
	s.Carries = 0
	s.Serving, s.Running, s.Failure, s.NotInstalled, s.Stopping = nil, nil, nil, false, ""
	if stop == StopDelete {
		s.ended = true
		s.setPhase(ctx, Deleted)
		return
	}
	s.setPhase(ctx, Drained)
}

// since is the age from which on deployments may be installed after the service has
// stopped. One that has no life may be applied again by who counts none.
func (s *service) since(stop Stop) placement.Age {
	switch {
	case s.Life == 0:
		return placement.Age{}
	case stop == StopDelete:
		return placement.Age{Life: s.Life + 1}
	}
	return placement.Age{Life: s.Life, Generation: s.Generation + 1}
}

// patchLife marks services that number their lives.
const patchLife = "lives of services"

// begin fetches once from the fleet a number that is higher than that of any life before:
// the version of an empty reservation.
func (s *service) begin(ctx workflow.Context) error {
	if s.Life > 0 || s.Serving != nil || workflow.GetVersion(ctx, patchLife, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	var fleet *activities.Fleet
	var view activities.FleetView
	nothing := activities.Reservation{Service: ServiceID(s.Kind, s.Name)}
	err := workflow.ExecuteActivity(fleetOptions(ctx, "number this life of "+s.Name), fleet.Reserve, nothing).Get(ctx, &view)
	s.Life = view.Version
	return err
}

// meetGateways fetches the present gateways once, and subscribes to those that come and go.
func (s *service) meetGateways(ctx workflow.Context) {
	s.several = severalGateways(ctx)
	if !s.several || s.Met {
		return
	}
	var fleet *activities.Fleet
	var view activities.FleetView
	id := ServiceID(s.Kind, s.Name)
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "look which gateways there are"), fleet.Watch, id).Get(ctx, &view); err != nil {
		workflow.GetLogger(ctx).Warn("the fleet does not answer; the next change tries again", "error", err)
		return
	}
	s.Met, s.Gateways = true, view.Gateways()
}

// gatewaysChanged notes which gateways there are now. What serves is installed on those
// that have just joined; a change that found none is tried again.
func (s *service) gatewaysChanged(ctx workflow.Context, c FleetChange) {
	if !c.Members {
		return
	}
	s.Gateways = c.Gateways
	if s.under != "" && gatewayLeft(ctx) {
		workflow.SignalExternalWorkflow(ctx, s.under, "", SignalGateways, s.Gateways) // one that has ended need not get it
	}
	s.meet(c.New...)
	if len(c.New) > 0 && prompt(ctx) { // the load of one that was killed is another's by now
		for _, g := range c.New {
			delete(s.Seen, g.Name)
		}
	}
	for _, name := range workflow.DeterministicKeys(s.Seen) {
		if !slices.ContainsFunc(s.Gateways, func(g activities.Member) bool { return g.Name == name }) {
			delete(s.Seen, name)
		}
	}
	for _, name := range workflow.DeterministicKeys(s.Missing) {
		if !slices.ContainsFunc(s.Gateways, func(g activities.Member) bool { return g.Name == name }) {
			delete(s.Missing, name)
		}
	}
	s.older = !s.several
	if len(c.New) > 0 && s.Failure != nil && !s.Pending && s.Stop == "" && s.Stopping == "" {
		s.tryAgain(ctx)
	}
}

// meet adds gateways to those that lack what serves, and drops those that have gone.
func (s *service) meet(some ...activities.Member) {
	s.New = append(s.New, some...)
	s.New = slices.DeleteFunc(s.New, func(g activities.Member) bool { return !s.present(g) })
	slices.SortFunc(s.New, func(a, b activities.Member) int {
		return slices.Index(s.Gateways, a) - slices.Index(s.Gateways, b)
	})
	s.New = slices.Compact(s.New)
}

// present reports whether a gateway is in the fleet still.
func (s *service) present(g activities.Member) bool { return slices.Contains(s.Gateways, g) }

// newcomers reports that gateways lack what serves.
func (s *service) newcomers() bool { return s.several && len(s.New) > 0 }

// installed notes which gateways have what serves since a change.
func (s *service) installed(reply RescheduleReply) {
	s.New = slices.DeleteFunc(s.New, func(g activities.Member) bool { return slices.Contains(reply.Gateways, g) })
	s.meet(reply.Behind...)
}

// installOnJoined installs what serves on gateways that have just joined, or announces the
// service to them. Where others serve, one that misses executors gets the service all the
// same: it then reports not to be ready.
func (s *service) installOnJoined(ctx workflow.Context) {
	some := s.New
	s.New = nil
	if s.Serving == nil {
		s.announce(ctx, some)
		return
	}
	all := gatewayQueues(ctx, some, s.present)
	only := len(some) == len(s.Gateways)
	if only {
		s.setPhase(ctx, Reconciling)
	}
	err := s.tell(ctx, all, s.hasWork)
	switch {
	case err == nil, gatewayGone(err):
	case s.hasWork():
		s.meet(some...) // after what is more urgent
	case only:
		s.NotInstalled = true
		s.again(ctx, "the gateway restarted and could not serve the plan: "+activities.Reason(err))
	default:
		if err := s.tellAnyhow(ctx, all); err != nil {
			workflow.GetLogger(ctx).Warn("gateways that have joined do not serve", "error", err)
		}
	}
	if only {
		s.setPhase(ctx, Serving)
	}
}

// tell installs what serves on gateways when its executors are there, or at once where some
// are known to be away: a gateway is ready when it has all services.
func (s *service) tell(ctx workflow.Context, all []gatewayQueue, urgent func() bool) error {
	if (len(s.Running) < len(s.Serving.Slots) || len(s.absent()) > 0) && meanwhile(ctx) {
		return s.tellAnyhow(ctx, all)
	}
	return s.install(ctx, all, *s.Serving, urgent)
}

// tellAnyhow installs what serves on gateways, whichever of its executors are there.
func (s *service) tellAnyhow(ctx workflow.Context, all []gatewayQueue) error {
	var gateway *activities.GatewayActivities
	return awaitParts(ctx, beginParts(ctx, all, "install what serves, though executors are missing", InstallTimeout, gateway.Install, s.Serving.Deployment()))
}

// patchMeanwhile marks services that install what serves on gateways while another plan is
// searched, and while executors are missing.
const patchMeanwhile = "gateways are told meanwhile"

func meanwhile(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchMeanwhile, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// tellMeanwhile installs what serves on gateways that join while another plan is searched,
// or had joined before: a search may take long, and may repeat one that failed. It ends
// when executors and traffic begin to move, or with the function that it returns, which
// waits for an installation under way.
func (s *service) tellMeanwhile(ctx workflow.Context) (end func()) {
	if s.Serving == nil || !meanwhile(ctx) {
		return func() {}
	}
	over, ended := false, false
	moves := func() bool { return over || s.Phase != Planning && s.Phase != Profiling }
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { ended = true }()
		for workflow.Await(ctx, func() bool { return over || s.newcomers() && !moves() }) == nil && !over {
			some := s.New
			s.New = nil
			if err := s.tell(ctx, gatewayQueues(ctx, some, s.present), moves); err != nil && !gatewayGone(err) {
				s.meet(some...) // after the change, if that does not
				return
			}
		}
	})
	return func() {
		over = true
		_ = workflow.Await(ctx, func() bool { return ended })
	}
}

// announceTimeout bounds how long a gateway may take to note that a service exists.
const announceTimeout = 10 * time.Second

// announce notifies gateways that the service exists and is not ready, without waiting for
// them.
func (s *service) announce(ctx workflow.Context, some []activities.Member) {
	if !s.several {
		return
	}
	var gateway *activities.GatewayActivities
	beginParts(ctx, gatewayQueues(ctx, some, s.present), "announce "+s.Name+", which is not ready", announceTimeout, gateway.Announce, s.Name)
}

// seenFor is how long a gateway's measures count: one without requests sends none.
const seenFor = 15 * time.Second

// together adds up what all gateways saw lately. One that sends no name is the only one.
func (s *service) together(ctx workflow.Context, m autoscale.Measures) autoscale.Measures {
	if m.Gateway == "" {
		return m
	}
	now := workflow.Now(ctx)
	if s.Seen == nil {
		s.Seen = map[string]Seen{}
	}
	s.Seen[m.Gateway] = Seen{now, m}
	var all []autoscale.Measures
	for _, name := range workflow.DeterministicKeys(s.Seen) {
		one := s.Seen[name]
		if now.Sub(one.At) > seenFor {
			delete(s.Seen, name)
			continue
		}
		all = append(all, one.Measures)
	}
	return autoscale.MergeMeasures(all...)
}
