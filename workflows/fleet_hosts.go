package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// HostInput is the input of the host workflow.
type HostInput struct {
	Info             activities.HostInfo
	Incarnation      int
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// Host keeps a host in the fleet: its hold activity heartbeats from the host
// itself. When no worker takes it for a while the host is gone, and the fleet is notified.
func Host(ctx workflow.Context, in HostInput) error {
	var host *activities.Host
	lost := hostLost{Name: in.Info.Name, Incarnation: in.Incarnation}
	lost.Reason = hold(ctx, activities.HostQueue(in.Info.Name), in.HeartbeatTimeout, ReturnTime, "host "+in.Info.Name, host.HoldHost, in.Info)
	if ctx.Err() != nil {
		lost.Reason = cancelled
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.SignalExternalWorkflow(ctx, activities.FleetID, "", signalHostLost, lost).Get(ctx, nil)
}

// Hosts to which a gateway has lost its connections. The heartbeats of one that is gone
// stop, too, but that is noticed only when they have been missed for their timeout.

const (
	// answerWithin is how long a host may take to answer whether it is there: longer than a question
	// that is asked at the same time takes to be answered elsewhere.
	answerWithin = 500 * time.Millisecond

	// answerTimeout is when it is given up whatever else happens, the shortest that Temporal keeps.
	answerTimeout = time.Second

	// patchPause marks fleets that wait for less than a second.
	patchPause = "pause"

	// unanswered is why a host counts as lost that does not.
	unanswered = "does not answer"

	// doubtPause is the least time between two checks of a host.
	doubtPause = 10 * time.Second
)

// receiveDoubts receives the doubts of gateways about hosts.
func (f *fleet) receiveDoubts(ctx workflow.Context) {
	doubts := workflow.GetSignalChannel(ctx, activities.FleetDoubt)
	for {
		var host string
		doubts.Receive(ctx, &host)
		f.doubt(ctx, host)
	}
}

// doubt checks whether a host is there, and counts it as lost where it does not answer. One
// that is only cut off from a gateway answers, and so does a process that was started again
// meanwhile. One that nothing could replace is left to its heartbeats: it may have been
// stopped for a moment.
func (f *fleet) doubt(ctx workflow.Context, name string) {
	f.handled++
	now, h := workflow.Now(ctx), f.Hosts[name]
	if h == nil || now.Before(f.asked[name]) || !f.replaceable(name) {
		return
	}
	f.asked[name] = now.Add(doubtPause)
	incarnation := h.Incarnation
	f.telling++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { f.telling-- }()
		asking := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              activities.HostQueue(name),
			ScheduleToCloseTimeout: answerTimeout,
			RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
			Summary:                "check that host " + name + " is there",
		})
		var host *activities.Host
		answer := workflow.ExecuteActivity(asking, host.Answer)
		late := func() bool { return false }
		if workflow.GetVersion(ctx, patchPause, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
			late = f.pause(ctx, answerWithin)
		}
		_ = workflow.Await(ctx, func() bool { return answer.IsReady() || late() })
		if answer.IsReady() && !errors.As(answer.Get(ctx, nil), new(*temporal.TimeoutError)) {
			return
		}
		if h := f.Hosts[name]; h == nil || h.Incarnation != incarnation {
			return
		}
		if err := workflow.SignalExternalWorkflow(ctx, HostID(name), "", signalSilent, unanswered).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Debug("the host has gone already", "host", name, "error", err)
		}
	})
}

// pause starts a wait that is shorter than Temporal's timers can be, and returns whether it is over.
func (f *fleet) pause(ctx workflow.Context, d time.Duration) (over func() bool) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              activities.ControlQueue,
		ScheduleToCloseTimeout: answerTimeout,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "wait",
	})
	var fleet *activities.Fleet
	wait := workflow.ExecuteActivity(ctx, fleet.Pause, d)
	return func() bool { return wait.IsReady() && wait.Get(ctx, nil) == nil }
}

// replaceable reports whether another host has devices of every kind that is used there.
func (f *fleet) replaceable(name string) bool {
	for _, service := range workflow.DeterministicKeys(f.Reserved) {
		for _, s := range f.Reserved[service] {
			if s.Host == name && !f.offered(s, name) {
				return false
			}
		}
	}
	return true
}

// offered reports whether a host other than that one has a device for the slot.
func (f *fleet) offered(s placement.Slot, except string) bool {
	for _, host := range workflow.DeterministicKeys(f.Hosts) {
		h := f.Hosts[host]
		if h.Info.Name == except || h.Info.Leaving {
			continue
		}
		for _, d := range h.Info.Devices {
			if d.Hardware == s.Hardware {
				return true
			}
		}
	}
	return false
}

// What services want of provisioners. A want counts hosts beyond those that there are, so
// each that joins is taken off all wants for its hardware: the services look again then,
// and request what is still missing.

// want notes the hosts that a service wants.
func (f *fleet) want(_ workflow.Context, r activities.WantRequest) (activities.FleetView, error) {
	f.handled++
	wants := slices.Clone(r.Wants)
	for i := range wants {
		for _, name := range workflow.DeterministicKeys(f.Hosts) {
			if h := f.Hosts[name]; h.Incarnation > r.Version && !h.Info.Leaving && offers(h.Info, wants[i].Hardware) {
				wants[i].Hosts--
			}
		}
	}
	f.ask(r.Service, wants)
	return f.view(), nil
}

func (f *fleet) ask(service string, wants []activities.Want) {
	wants = slices.DeleteFunc(wants, func(w activities.Want) bool { return w.Hosts <= 0 })
	if len(wants) == 0 {
		delete(f.Wants, service)
		return
	}
	if f.Wants == nil {
		f.Wants = map[string][]activities.Want{}
	}
	f.Wants[service] = wants
}

// came takes a host that has joined off the wants of services.
func (f *fleet) came(info activities.HostInfo) {
	for _, service := range workflow.DeterministicKeys(f.Wants) {
		wants := slices.Clone(f.Wants[service])
		for i := range wants {
			if offers(info, wants[i].Hardware) {
				wants[i].Hosts--
			}
		}
		f.ask(service, wants)
	}
}

func offers(info activities.HostInfo, hardware string) bool {
	return slices.ContainsFunc(info.Devices, func(d placement.Device) bool { return d.Hardware == hardware })
}

// tellLeaving has hosts end that are about to leave: as soon as nothing runs there.
func (f *fleet) tellLeaving(ctx workflow.Context, names []string) {
	for _, name := range names {
		var host *activities.Host
		f.tell(ctx, activities.HostQueue(name), fmt.Sprintf("have %s leave when nothing runs there", name), host.Leave, name)
	}
}
