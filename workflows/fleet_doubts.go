package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Hosts to which a gateway has lost its connections. The heartbeats of one that is gone
// stop, too, but that is noticed only when they have been missed for their timeout.

const (
	// answerWithin is how long a host may take to answer whether it is there.
	answerWithin = 2 * time.Second

	// unanswered is why a host counts as lost that does not.
	unanswered = "does not answer"

	// doubtPause is for how long a host that has been asked is not asked again.
	doubtPause = 10 * time.Second
)

// receiveDoubts takes what gateways say of hosts.
func (f *fleet) receiveDoubts(ctx workflow.Context) {
	doubts := workflow.GetSignalChannel(ctx, activities.FleetDoubt)
	for {
		var host string
		doubts.Receive(ctx, &host)
		f.doubt(ctx, host)
	}
}

// doubt asks a host whether it is there, and has it count as lost where it does not answer.
// One that is only cut off from a gateway answers, and so does a process that was started
// again meanwhile. One that nothing could replace is left to its heartbeats: it may have
// been stopped for a moment.
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
			ScheduleToCloseTimeout: answerWithin,
			RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
			Summary:                "ask host " + name + " whether it is there",
		})
		var host *activities.Host
		err := workflow.ExecuteActivity(asking, host.Answer).Get(ctx, nil)
		var silent *temporal.TimeoutError
		if h := f.Hosts[name]; !errors.As(err, &silent) || h == nil || h.Incarnation != incarnation {
			return
		}
		if err := workflow.SignalExternalWorkflow(ctx, HostID(name), "", signalSilent, unanswered).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Debug("the host has gone already", "host", name, "error", err)
		}
	})
}

// replaceable says whether another host has devices of every kind that is used there.
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

// offered says whether a host other than that one has a device for the slot.
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
