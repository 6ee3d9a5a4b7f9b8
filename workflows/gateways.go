package workflows

import (
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// Changes reach every gateway: each runs its part on a task queue of its own, all of
// them at once. One that is gone does not hold a change up for longer than its
// heartbeat timeout, and not at all once the fleet has said that it is gone or that
// another process has its name: should it come back, it joins anew and is told what serves.

// patchGateways marks workflows that know of several gateways; older ones go on with
// the one queue that the one gateway had.
const patchGateways = "gateways"

// patchLeft marks workflows that leave out a gateway as soon as the fleet says that it is
// gone; older ones wait until its activity times out.
const patchLeft = "gateways that left"

// queue is where a gateway takes activities.
type queue struct {
	name   string
	shared bool // by any gateway, as it was before there were several
	member activities.Member
	left   func() bool // whether the gateway has left since; nil where nobody knows
}

// queues are those of gateways. What is present is asked again while they do their parts.
func queues(ctx workflow.Context, gateways []activities.Member, present func(activities.Member) bool) (all []queue) {
	if workflow.GetVersion(ctx, patchGateways, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return []queue{{name: activities.GatewayQueue, shared: true}}
	}
	for _, g := range gateways {
		all = append(all, queue{name: g.Queue(), member: g, left: func() bool { return !present(g) }})
	}
	return all
}

// part is one gateway's part of a change.
type part struct {
	queue
	done   workflow.Future
	cancel workflow.CancelFunc
}

// errLeft ends the part of a gateway that has left.
var errLeft = temporal.NewNonRetryableApplicationError("workflows: the gateway has left the fleet, or another process has its name", activities.TypeLeft, nil)

// ready says whether there is nothing to wait for.
func (p part) ready() bool { return p.done.IsReady() || p.left != nil && p.left() }

// get waits for the part. Nothing waits for a gateway that has left: its queue is read by
// nobody.
func (p part) get(ctx workflow.Context) error {
	open, _ := workflow.NewDisconnectedContext(ctx) // one that is cancelled says so itself
	if err := workflow.Await(open, p.ready); err != nil {
		return err
	}
	if !p.done.IsReady() && workflow.GetVersion(ctx, patchLeft, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		p.cancel()
		return errLeft
	}
	return p.done.Get(ctx, nil)
}

// onGateways begins an activity on every gateway.
func onGateways(ctx workflow.Context, all []queue, summary string, limit time.Duration, activity, arg any) (parts []part) {
	for _, q := range all {
		options := workflow.ActivityOptions{
			TaskQueue:           q.name,
			StartToCloseTimeout: limit,
			HeartbeatTimeout:    activities.DefaultHeartbeatTimeout,
			WaitForCancellation: true,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
			Summary:             summary,
		}
		if !q.shared {
			options.ScheduleToStartTimeout = activities.DefaultHeartbeatTimeout
		}
		ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, options))
		parts = append(parts, part{q, workflow.ExecuteActivity(ctx, activity, arg), cancel})
	}
	return parts
}

// errNoGateway says that a change needs a gateway, and none is there.
var errNoGateway = temporal.NewNonRetryableApplicationError("workflows: no gateway has joined the fleet; start one with harpagon gateway", activities.TypeNotReady, nil)

// ended says whether all gateways have done their parts.
func ended(parts []part) bool {
	return !slices.ContainsFunc(parts, func(p part) bool { return !p.done.IsReady() })
}

// await waits until all gateways have done their parts. One that is gone is left out,
// unless all are.
func await(ctx workflow.Context, parts []part) (err error) {
	if len(parts) == 0 {
		return errNoGateway
	}
	left := 0
	var lost error
	for _, p := range parts {
		switch e := p.get(ctx); {
		case e == nil:
			left++
		case gone(e):
			lost = e
		case err == nil:
			err = e
		}
	}
	if err == nil && left == 0 {
		return lost
	}
	return err
}

// failed are the gateways that could not do their part; the error is that of the
// first, and nil when another could.
func failed(ctx workflow.Context, parts []part) (behind []activities.Member, err error) {
	if len(parts) == 0 {
		return nil, errNoGateway
	}
	for _, p := range parts {
		if e := p.get(ctx); e != nil {
			if behind = append(behind, p.member); err == nil {
				err = e
			}
		}
	}
	if len(behind) < len(parts) {
		return behind, nil
	}
	return behind, err
}

// gone says of an activity's error that nobody was there to run it.
func gone(err error) bool {
	var t *temporal.TimeoutError
	return errors.Is(err, errLeft) || errors.As(err, &t) && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START || t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT)
}
