package control

import (
	"context"
	"errors"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
)

// restored starts the workflow of a service again that somebody has terminated, with its
// last state, and reports whether it did. One that is not part of the fleet, or that
// somebody has cancelled, or deleted by a command, has ended in good order.
func (c *Control) restored(ctx context.Context, id string, last *workflowservice.DescribeWorkflowExecutionResponse) (bool, error) {
	info := last.GetWorkflowExecutionInfo()
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
	default:
		return false, nil
	}
	view, err := c.Fleet(ctx)
	if err != nil || !slices.Contains(view.Services, id) {
		return false, err
	}
	value, err := c.client.QueryWorkflow(ctx, id, info.GetExecution().GetRunId(), workflows.QueryState)
	if err != nil {
		return false, err
	}
	var state workflows.State
	if err := value.Get(&state); err != nil {
		return false, err
	}
	state.Astray = workflows.Terminated
	_, err = c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: activities.ControlQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary: string(state.Kind) + " " + state.Name,
	}, workflows.TypeService, state)
	return err == nil, err
}

// ours is the condition on a list of workflows that they are Harpagon's: others may use the
// namespace, too.
const ours = "TaskQueue = '" + activities.ControlQueue + "'"

// Keeper mends what people do to workflows in Temporal's UI, by looking again and again
// whether those run that the fleet counts on. Any number may look.
type Keeper struct {
	commands  *Control
	namespace string
	suspect   map[string]bool // what was not as it should be at the last look, by ID
}

// NewKeeper makes a Keeper of the namespace that the commands are for.
func NewKeeper(commands *Control, namespace string) *Keeper {
	return &Keeper{commands: commands, namespace: namespace}
}

// Look looks once. It does something about a workflow only when it was seen to be wrong the time
// before, too, since workflows start and end by themselves, and the list of them may lag.
func (k *Keeper) Look(ctx context.Context) error {
	c := k.commands.client
	if err := activities.EnsureFleet(ctx, c, k.namespace); err != nil {
		return err
	}
	view, err := k.commands.Fleet(ctx)
	if err != nil {
		return err
	}
	all, err := activities.List(ctx, c, ours+" AND WorkflowType IN ('"+strings.Join([]string{workflows.TypeService, workflows.TypeHost, workflows.TypeMember}, "', '")+"')")
	if err != nil {
		return err
	}
	runs := map[string]bool{}
	for _, e := range all {
		runs[e.GetExecution().GetWorkflowId()] = true
	}
	counted := counted(view)
	suspect := map[string]bool{}
	var failed []error
	look := func(id string, mend func(context.Context, string) error) {
		if suspect[id] = true; !k.suspect[id] {
			return
		}
		if err := mend(ctx, id); !notFound(err) {
			failed = append(failed, err)
		}
	}
	for id, mend := range counted {
		if !runs[id] {
			look(id, k.mending(mend))
		}
	}
	for id := range runs {
		if _, known := counted[id]; !known {
			look(id, k.unknown)
		}
	}
	k.suspect = suspect
	return errors.Join(append(failed, k.resume(ctx))...)
}

// held and served are what the fleet counts on.
type role uint8

const (
	held   role = iota // a host or a member
	served             // a service
)

// counted are the workflows that the fleet counts on, by ID.
func counted(view activities.FleetView) map[string]role {
	all := map[string]role{}
	for _, id := range view.Services {
		if _, tried := rollout.Of(id); !tried {
			all[id] = served
		}
	}
	for _, h := range view.Hosts {
		all[workflows.HostID(h.Name)] = held
	}
	for _, m := range view.Members {
		all[workflows.MemberID(m)] = held
	}
	return all
}

// mending has a workflow run again that the fleet counts on.
func (k *Keeper) mending(r role) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		c := k.commands.client
		d, err := c.DescribeWorkflowExecution(ctx, id, "")
		why, err := activities.Ended(d, err)
		if err != nil || why == "" {
			return err
		}
		if r == held {
			return c.SignalWorkflow(ctx, activities.FleetID, "", activities.FleetUnheld, id)
		}
		if again, err := k.commands.restored(ctx, id, d); err != nil || again {
			return err
		}
		return k.forget(ctx, id)
	}
}

// forget ends what is left of a service whose workflow is gone with its state. Gateways
// notice by themselves.
func (k *Keeper) forget(ctx context.Context, id string) error {
	_, name, _ := strings.Cut(id, "/")
	left, err := activities.List(ctx, k.commands.client, ours+" AND WorkflowType = 'executor' AND WorkflowId STARTS_WITH 'executor/"+name+"/'")
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := k.commands.client.CancelWorkflow(ctx, e.GetExecution().GetWorkflowId(), ""); err != nil && !notFound(err) {
			return err
		}
	}
	_, err = activities.UpdateFleet(ctx, k.commands.client, activities.FleetReserve, activities.Reservation{Service: id, Forget: true})
	return err
}

// unknown handles a workflow that the fleet does not count on: a service reserves again
// what it holds, and a process whose hold ends joins again.
func (k *Keeper) unknown(ctx context.Context, id string) error {
	c := k.commands.client
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if why, err := activities.Ended(d, err); err != nil || why != "" {
		return err
	}
	if d.GetWorkflowExecutionInfo().GetType().GetName() == workflows.TypeService {
		return c.SignalWorkflow(ctx, id, "", workflows.SignalFleetChanged, workflows.FleetChange{Anew: true})
	}
	return c.TerminateWorkflow(ctx, id, "", "the fleet does not know it; who is held joins again")
}

// resume has what is paused go on.
func (k *Keeper) resume(ctx context.Context) error {
	all, err := activities.List(ctx, k.commands.client, ours+" AND TemporalPauseInfo IS NOT NULL")
	if err != nil {
		return err
	}
	for _, e := range all {
		d, err := k.commands.client.DescribeWorkflowExecution(ctx, e.GetExecution().GetWorkflowId(), "")
		if err == nil {
			err = activities.Resume(ctx, k.commands.client, k.namespace, d)
		}
		if err != nil && !notFound(err) {
			return err
		}
	}
	return nil
}
