package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// service drives State.
type service struct {
	State
	changing bool   // the latest spec is being carried out
	ended    bool   // nothing runs any more: the workflow may end
	under    string // ID of the reschedule under way
	several  bool   // it supports several gateways
	older    bool   // it does not, and there are some by now: a new run will
	run      string // see Reset
	examines bool   // executors that gateways miss are looked at
}

// Service owns one service until it is deleted. Handlers only change the state;
// this loop carries out what the state demands, one thing at a time.
func Service(ctx workflow.Context, state State) error {
	s := &service{State: state}
	s.init()
	asked := ctx // to end, by a person
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := s.setHandlers(ctx); err != nil {
		return err
	}
	s.receiveSignals(ctx)
	s.endWith(ctx, asked)
	s.meetGateways(ctx)
	for {
		s.show(ctx)
		if err := s.awaitWork(ctx); err != nil {
			return err
		}
		switch {
		case s.Stop != "":
			if s.stop(ctx); s.ended {
				s.show(ctx)
				if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
					return err
				}
				return asked.Err()
			}
		case s.Astray != "":
			s.takeStock(ctx)
		case s.removeLost(ctx), s.moveAway(ctx):
		case s.Mend != "":
			s.repair(ctx)
		case s.Pending:
			s.change(ctx)
		case s.newcomers():
			s.installOnJoined(ctx)
		case s.Reinstall:
			s.reinstall(ctx)
		case s.historyFull(ctx):
			if err := s.continueAsNew(ctx); err != nil {
				return err
			}
		}
	}
}

func (s *service) init() {
	if s.Points == nil {
		s.Points = map[string][]pipelines.Point{}
	}
	if s.Ended == nil {
		s.Ended = map[string]string{}
	}
	if s.Phase == "" {
		s.Phase = Waiting
	}
	s.Handled = 0
}

// awaitWork waits until there is something to do, or a failed change is due
// again.
func (s *service) awaitWork(ctx workflow.Context) error {
	ready := func() bool {
		s.wasReset(ctx) // no event reports that
		return s.hasWork() || s.historyFull(ctx)
	}
	if s.RetryAt.IsZero() {
		return workflow.Await(ctx, ready)
	}
	options := workflow.AwaitOptions{
		Timeout:      max(s.RetryAt.Sub(workflow.Now(ctx)), 0),
		TimerOptions: workflow.TimerOptions{Summary: "until the failed change is tried again"},
	}
	done, err := workflow.AwaitWithOptions(ctx, options, ready)
	if err == nil && !done {
		s.tryAgain(ctx)
	}
	return err
}

func (s *service) hasWork() bool {
	return s.Stop != "" || s.Astray != "" || s.Mend != "" || s.Pending || s.newcomers() || s.Reinstall || len(s.Lost)+len(s.Leaving)+len(s.Ended) > 0
}

func (s *service) historyFull(ctx workflow.Context) bool {
	n := s.Settings.ContinueAfter
	return s.older || workflow.GetInfo(ctx).GetContinueAsNewSuggested() || n > 0 && s.Handled >= n
}

// continueAsNew starts a fresh history with the same state, unless the last
// messages have brought something to do.
func (s *service) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	s.receivePending(ctx)
	if s.hasWork() {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, TypeService, s.State)
}

// replan wants another plan, under a generation of its own. What other services
// hold is given for it.
func (s *service) replan(cause string) {
	s.Pending, s.Cause, s.RetryAt, s.Alone, s.Given, s.By = true, cause, time.Time{}, true, nil, ""
	s.Generation++
}

// again has a new plan made, under a generation of its own: for what serves, where the
// requested declaration has been refused, or else for that.
func (s *service) again(ctx workflow.Context, cause string) {
	if !s.refused(ctx) {
		s.replan(cause)
		return
	}
	s.Mend = cause
	s.Generation++
	s.Failure.Generation = s.Generation // of the same declaration
}

// patchMendFirst marks services that mend what serves before they try again what was refused.
const patchMendFirst = "what serves is mended first"

// refused reports that the requested declaration is not the one that serves and could not
// be carried out. It leaves no trace in what serves.
func (s *service) refused(ctx workflow.Context) bool {
	return s.Failure != nil && s.Serving != nil && s.Failure.Generation == s.Generation && !s.changing &&
		s.Declarations.By(s.Generation) != s.Declarations.By(s.carried()) && mendsFirst(ctx)
}

func mendsFirst(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchMendFirst, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// broken reports that executors of what serves are missing, or that the gateway has it not.
func (s *service) broken() bool {
	return s.Serving != nil && (len(s.Running) < len(s.Serving.Slots) || s.NotInstalled)
}

// removeLost takes executors out of what runs that have ended, or whose host has
// gone, and wants another plan. It is false when nothing that runs is concerned.
func (s *service) removeLost(ctx workflow.Context) bool {
	if s.hasLost() {
		s.awaitFurtherLosses(ctx)
	}
	var left, stranded []Running
	var cause string // the first, when there are several
	for _, r := range s.Running {
		why, ended := s.Ended[r.Workflow]
		switch {
		case ended:
			cause = cmp.Or(cause, "executor "+r.Slot.Executor+" ended: "+why)
		case slices.Contains(s.Lost, r.Slot.Host):
			cause = cmp.Or(cause, s.gone(r.Slot.Host))
			stranded = append(stranded, r)
		default:
			left = append(left, r)
		}
	}
	s.Lost, s.Stopped, s.Ended = nil, nil, map[string]string{}
	if len(left) == len(s.Running) {
		return false
	}
	s.Running = left
	s.again(ctx, cause)
	cancelExecutors(ctx, stranded)
	return true
}

// gone reports what became of a host that has gone.
func (s *service) gone(host string) string {
	if slices.Contains(s.Stopped, host) {
		return "host " + host + " was stopped"
	}
	return "host " + host + " was lost"
}

// moveAway wants another plan when something runs on a host that is about to leave. What
// runs there goes on until the next plan serves.
func (s *service) moveAway(ctx workflow.Context) bool {
	leaving := s.Leaving
	s.Leaving = nil
	i := slices.IndexFunc(s.Running, func(r Running) bool { return slices.Contains(leaving, r.Slot.Host) })
	if i < 0 {
		return false
	}
	s.again(ctx, "host "+s.Running[i].Slot.Host+" is about to leave")
	return true
}

// hasLost reports whether something that runs has ended or lost its host.
func (s *service) hasLost() bool {
	return slices.ContainsFunc(s.Running, func(r Running) bool {
		_, ended := s.Ended[r.Workflow]
		return ended || slices.Contains(s.Lost, r.Slot.Host)
	})
}

// gatherTime is how long a service waits for further losses after an executor has ended. When a host or a
// whole system comes back after a while, its executors are reported one by one, and a plan that counts on one
// that is about to be reported would wait for it in vain.
const gatherTime = 2 * time.Second

func (s *service) awaitFurtherLosses(ctx workflow.Context) {
	if len(s.Ended) == 0 && prompt(ctx) {
		return // of lost hosts the fleet reports all at once, and Temporal's shortest timers take a second
	}
	timer := workflow.NewTimerWithOptions(ctx, gatherTime, workflow.TimerOptions{Summary: "wait for what else has ended"})
	_ = timer.Get(ctx, nil) // a cancelled wait is a short one
}

// patchPrompt marks services that plan at once for lost hosts, and forget what a gateway measured before it was
// started again.
const patchPrompt = "prompt"

func prompt(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchPrompt, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

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
	s.Lost, s.Stopped = append(s.Lost, c.Lost...), append(s.Stopped, c.Stopped...)
	s.Leaving = append(s.Leaving, c.Leaving...)
	s.Joined = s.Joined || len(c.Joined) > 0 || c.Offers
	switch {
	case len(c.Joined) > 0:
		s.hostsCame(ctx, "a host has joined")
		s.spread(ctx, c.Joined)
	case c.Offers:
		s.hostsCame(ctx, "hosts can be made")
	}
}

// patchShort marks services that are planned again when hosts come of which what serves
// could use more.
const patchShort = "short of devices"

// tryAgain has what has failed tried again now, after what serves is mended.
func (s *service) tryAgain(ctx workflow.Context) {
	if s.Mend == "" && s.broken() && s.refused(ctx) {
		s.again(ctx, s.lack())
	}
	s.RetryAt, s.Pending = time.Time{}, true
}

// hostsCame has what lacks devices planned again, when a host has joined or could be made.
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

// patchSpread marks services that are placed once more when a host has joined, and executors of
// a module are all on another.
const patchSpread = "spread over hosts"

// spread wants what serves placed once more where a module's executors are all on one host, and
// another has joined: what was placed while a host was away may well be.
func (s *service) spread(ctx workflow.Context, joined []string) {
	if s.Serving == nil || s.Pending || s.Mend != "" || s.Failure != nil || s.Stop != "" || s.Stopping != "" {
		return
	}
	for _, i := range placement.OnOneHost(s.Serving.Slots) {
		on := s.Serving.Slots[i]
		if !slices.Contains(joined, on.Host) && workflow.GetVersion(ctx, patchSpread, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
			s.replan(fmt.Sprintf("host %s has joined, and %s runs on %s alone", joined[0], on.Module, on.Host))
			return
		}
	}
}

// Register registers every workflow under its type name.
func Register(w worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		TypeService: Service, TypeProfile: Profile, TypeReschedule: Reschedule,
		TypeExecutor: Executor, TypeFleet: Fleet, TypeHost: Host, TypeMember: Member,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}
