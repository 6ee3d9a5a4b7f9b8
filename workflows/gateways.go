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

// patchSeveral marks workflows that support several gateways; older ones go on with the one
// queue that the one gateway had.
const patchSeveral = "gateways"

// patchLeft marks workflows that leave out a gateway as soon as the fleet states that it is
// gone; older ones wait until its activity times out.
const patchLeft = "gateways that left"

// severalGateways reports whether a workflow supports several gateways.
func severalGateways(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchSeveral, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// gatewayLeft reports whether a workflow leaves out gateways that have left.
func gatewayLeft(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchLeft, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// gatewayQueue is where a gateway takes activities.
type gatewayQueue struct {
	name   string
	shared bool // by any gateway, as it was before there were several
	member activities.Member
	left   func() bool // whether the gateway has left since; nil where unknown
}

// gatewayQueues are those of gateways. present is called again while they do their parts.
func gatewayQueues(ctx workflow.Context, gateways []activities.Member, present func(activities.Member) bool) (all []gatewayQueue) {
	if !severalGateways(ctx) {
		return []gatewayQueue{{name: activities.GatewayQueue, shared: true}}
	}
	for _, g := range gateways {
		all = append(all, gatewayQueue{name: g.Queue(), member: g, left: func() bool { return !present(g) }})
	}
	return all
}

// gatewayPart is one gateway's part of a change.
type gatewayPart struct {
	gatewayQueue
	Done   workflow.Future
	cancel workflow.CancelFunc
}

// errLeft ends the part of a gateway that has left.
var errLeft = temporal.NewNonRetryableApplicationError("workflows: the gateway has left the fleet, or another process has its name", activities.TypeLeft, nil)

// Ready reports whether there is nothing to wait for.
func (p gatewayPart) Ready() bool { return p.Done.IsReady() || p.left != nil && p.left() }

// get waits for the part. Nothing waits for a gateway that has left: its queue has no
// reader.
func (p gatewayPart) get(ctx workflow.Context) error {
	open, _ := workflow.NewDisconnectedContext(ctx) // a cancelled one returns that itself
	if err := workflow.Await(open, p.Ready); err != nil {
		return err
	}
	if !p.Done.IsReady() && gatewayLeft(ctx) {
		p.cancel()
		return errLeft
	}
	return p.Done.Get(ctx, nil)
}

// beginParts begins an activity on every gateway.
func beginParts(ctx workflow.Context, all []gatewayQueue, summary string, limit time.Duration, activity any, args ...any) (parts []gatewayPart) {
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
		parts = append(parts, gatewayPart{q, workflow.ExecuteActivity(ctx, activity, args...), cancel})
	}
	return parts
}

// errNone means that a change needs a gateway, and none is there.
var errNone = temporal.NewNonRetryableApplicationError("workflows: no gateway has joined the fleet; start one with harpagon gateway", activities.TypeNotReady, nil)

// partsEnded reports whether all gateways have done their parts.
func partsEnded(parts []gatewayPart) bool {
	return !slices.ContainsFunc(parts, func(p gatewayPart) bool { return !p.Done.IsReady() })
}

// awaitParts waits until all gateways have done their parts. One that is gone is left out,
// unless all are.
func awaitParts(ctx workflow.Context, parts []gatewayPart) (err error) {
	if len(parts) == 0 {
		return errNone
	}
	left := 0
	var lost error
	for _, p := range parts {
		switch e := p.get(ctx); {
		case e == nil:
			left++
		case gatewayGone(e):
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

// failedParts are the gateways that could not do their part; the error is that of the
// first, and nil when another could.
func failedParts(ctx workflow.Context, parts []gatewayPart) (behind []activities.Member, err error) {
	if len(parts) == 0 {
		return nil, errNone
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

// gatewayGone reports whether an activity's error means that no gateway was there to run
// it.
func gatewayGone(err error) bool {
	var t *temporal.TimeoutError
	return errors.Is(err, errLeft) || errors.As(err, &t) && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START || t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT)
}
