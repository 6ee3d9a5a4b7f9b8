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

// patchSeveral marks workflows that know of several gateways; older ones go on with
// the one queue that the one gateway had.
const patchSeveral = "gateways"

// patchLeft marks workflows that leave out a gateway as soon as the fleet says that it is
// gone; older ones wait until its activity times out.
const patchLeft = "gateways that left"

// SeveralGateways says whether a workflow knows of several gateways.
func SeveralGateways(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchSeveral, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// GatewayLeft says whether a workflow leaves out gateways that have left.
func GatewayLeft(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchLeft, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// GatewayQueue is where a gateway takes activities.
type GatewayQueue struct {
	name   string
	shared bool // by any gateway, as it was before there were several
	member activities.Member
	left   func() bool // whether the gateway has left since; nil where nobody knows
}

// GatewayQueues are those of gateways. What is present is asked again while they do their parts.
func GatewayQueues(ctx workflow.Context, gateways []activities.Member, present func(activities.Member) bool) (all []GatewayQueue) {
	if !SeveralGateways(ctx) {
		return []GatewayQueue{{name: activities.GatewayQueue, shared: true}}
	}
	for _, g := range gateways {
		all = append(all, GatewayQueue{name: g.Queue(), member: g, left: func() bool { return !present(g) }})
	}
	return all
}

// GatewayPart is one gateway's part of a change.
type GatewayPart struct {
	GatewayQueue
	Done   workflow.Future
	cancel workflow.CancelFunc
}

// errLeft ends the part of a gateway that has left.
var errLeft = temporal.NewNonRetryableApplicationError("workflows: the gateway has left the fleet, or another process has its name", activities.TypeLeft, nil)

// Ready says whether there is nothing to wait for.
func (p GatewayPart) Ready() bool { return p.Done.IsReady() || p.left != nil && p.left() }

// get waits for the part. Nothing waits for a gateway that has left: its queue is read by
// nobody.
func (p GatewayPart) get(ctx workflow.Context) error {
	open, _ := workflow.NewDisconnectedContext(ctx) // one that is cancelled says so itself
	if err := workflow.Await(open, p.Ready); err != nil {
		return err
	}
	if !p.Done.IsReady() && GatewayLeft(ctx) {
		p.cancel()
		return errLeft
	}
	return p.Done.Get(ctx, nil)
}

// BeginParts begins an activity on every gateway.
func BeginParts(ctx workflow.Context, all []GatewayQueue, summary string, limit time.Duration, activity any, args ...any) (parts []GatewayPart) {
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
		parts = append(parts, GatewayPart{q, workflow.ExecuteActivity(ctx, activity, args...), cancel})
	}
	return parts
}

// errNone says that a change needs a gateway, and none is there.
var errNone = temporal.NewNonRetryableApplicationError("workflows: no gateway has joined the fleet; start one with harpagon gateway", activities.TypeNotReady, nil)

// PartsEnded says whether all gateways have done their parts.
func PartsEnded(parts []GatewayPart) bool {
	return !slices.ContainsFunc(parts, func(p GatewayPart) bool { return !p.Done.IsReady() })
}

// AwaitParts waits until all gateways have done their parts. One that is gone is left out,
// unless all are.
func AwaitParts(ctx workflow.Context, parts []GatewayPart) (err error) {
	if len(parts) == 0 {
		return errNone
	}
	left := 0
	var lost error
	for _, p := range parts {
		switch e := p.get(ctx); {
		case e == nil:
			left++
		case GatewayGone(e):
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

// FailedParts are the gateways that could not do their part; the error is that of the
// first, and nil when another could.
func FailedParts(ctx workflow.Context, parts []GatewayPart) (behind []activities.Member, err error) {
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

// GatewayGone says of an activity's error that nobody was there to run it.
func GatewayGone(err error) bool {
	var t *temporal.TimeoutError
	return errors.Is(err, errLeft) || errors.As(err, &t) && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START || t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT)
}
