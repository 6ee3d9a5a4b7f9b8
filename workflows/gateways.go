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
// heartbeat timeout: should it come back, it joins anew and is told what serves.

// patchGateways marks workflows that know of several gateways; older ones go on with
// the one queue that the one gateway had.
const patchGateways = "gateways"

// queue is where a gateway takes activities.
type queue struct {
	name   string
	shared bool // by any gateway, as it was before there were several
	member activities.Member
}

// queues are those of the gateways that are present.
func queues(ctx workflow.Context, gateways []activities.Member) (all []queue) {
	if workflow.GetVersion(ctx, patchGateways, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return []queue{{name: activities.GatewayQueue, shared: true}}
	}
	for _, g := range gateways {
		all = append(all, queue{name: g.Queue(), member: g})
	}
	return all
}

// part is one gateway's part of a change.
type part struct {
	queue
	done workflow.Future
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
		parts = append(parts, part{q, workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, arg)})
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
		switch e := p.done.Get(ctx, nil); {
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
		if e := p.done.Get(ctx, nil); e != nil {
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
	return errors.As(err, &t) && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START || t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT)
}
