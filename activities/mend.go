package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// What people do to workflows at the server, in its UI or by its command line, and what a
// workflow can not see of itself: these activities look at workflows from outside.

// Goes reports whether a workflow of that status goes on; one that is paused does.
func Goes(s enumspb.WorkflowExecutionStatus) bool {
	return s == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || s == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// resuming is the reason that Temporal shows with what is resumed.
const resuming = "harpagon needs it"

// Resume has a workflow, and its activities, go on where somebody has paused them.
func Resume(ctx context.Context, c client.Client, namespace string, d *workflowservice.DescribeWorkflowExecutionResponse) error {
	var failed []error
	at := d.GetWorkflowExecutionInfo().GetExecution()
	if d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		_, err := c.WorkflowService().UnpauseWorkflowExecution(ctx, &workflowservice.UnpauseWorkflowExecutionRequest{
			Namespace: namespace, WorkflowId: at.GetWorkflowId(), RunId: at.GetRunId(), Reason: resuming, RequestId: at.GetRunId() + time.Now().String(), Identity: "harpagon",
		})
		failed = append(failed, err)
	}
	for _, a := range d.GetPendingActivities() {
		if a.GetPaused() {
			failed = append(failed, resumeActivity(ctx, c, namespace, at, a.GetActivityId()))
		}
	}
	return errors.Join(failed...)
}

func resumeActivity(ctx context.Context, c client.Client, namespace string, of *commonpb.WorkflowExecution, id string) error {
	_, err := c.WorkflowService().UnpauseActivity(ctx, &workflowservice.UnpauseActivityRequest{
		Namespace: namespace, Execution: of, Activity: &workflowservice.UnpauseActivityRequest_Id{Id: id}, Identity: "harpagon",
	})
	return err
}

// Ended reports why it is over with a workflow that does not go on; empty of one that does.
func Ended(d *workflowservice.DescribeWorkflowExecutionResponse, err error) (why string, _ error) {
	s := d.GetWorkflowExecutionInfo().GetStatus()
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return "its workflow is not there any more", nil
	case err != nil:
		return "", err
	case Goes(s):
		return "", nil
	case s == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return "its workflow was terminated", nil
	case s == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return "its workflow was cancelled", nil
	}
	return "its workflow has ended", nil
}

// Examine looks at executors that gateways miss, by the IDs of their workflows, and reports why
// it is over with those that do not come again. What is paused goes on.
func (f *Fleet) Examine(ctx context.Context, ids []string) (map[string]string, error) {
	over := map[string]string{}
	for _, id := range ids {
		d, err := f.Client.DescribeWorkflowExecution(ctx, id, "")
		why, err := Ended(d, err)
		if err != nil {
			return nil, err
		}
		if why != "" {
			over[id] = why
		} else if err := Resume(ctx, f.Client, activity.GetInfo(ctx).Namespace, d); err != nil {
			return nil, err
		}
	}
	return over, nil
}

// StockInput is a service's own record of what it runs.
type StockInput struct {
	Service string            // ID of its workflow
	Known   map[string]string // by executors, the IDs of their workflows
	Under   string            // ID of the workflow of its latest change
}

// Stock is what there is.
type Stock struct {
	View   FleetView         // with the service subscribed to changes
	Found  map[string]string // of slots that are reserved and not known, the IDs of the workflows of their executors
	Over   map[string]string // why it is over with those that are known, by ID
	Strays []string          // IDs of workflows of executors that belong to no service
}

// TakeStock finds out what runs of a service whose record may be wrong. A change that is
// still under way, of a run that is over, is waited for: it takes back what it has begun.
func (f *Fleet) TakeStock(ctx context.Context, in StockInput) (s Stock, err error) {
	if d, err := f.Client.DescribeWorkflowExecution(ctx, in.Under, ""); err == nil && Goes(d.GetWorkflowExecutionInfo().GetStatus()) {
		_ = f.Client.CancelWorkflow(ctx, in.Under, "")
		return s, fmt.Errorf("activities: %s still takes back what it has begun", in.Under)
	}
	if s.View, err = f.update(ctx, FleetWatch, in.Service); err != nil {
		return s, err
	}
	var known []string
	for _, id := range in.Known {
		known = append(known, id)
	}
	slices.Sort(known)
	if s.Over, err = f.Examine(ctx, known); err != nil {
		return s, err
	}
	_, name, _ := strings.Cut(in.Service, "/")
	all, err := List(ctx, f.Client, fmt.Sprintf("WorkflowType = 'executor' AND WorkflowId STARTS_WITH 'executor/%s/'", name))
	if err != nil {
		return s, err
	}
	s.Found = map[string]string{}
	for _, e := range all {
		id := e.GetExecution().GetWorkflowId()
		if slices.Contains(known, id) {
			continue
		}
		i := slices.IndexFunc(s.View.Reserved[in.Service], func(slot placement.Slot) bool { return strings.HasPrefix(id, "executor/"+slot.Executor+"/") })
		if i < 0 || in.Known[s.View.Reserved[in.Service][i].Executor] != "" {
			s.Strays = append(s.Strays, id)
		} else {
			s.Found[s.View.Reserved[in.Service][i].Executor] = id
		}
	}
	return s, nil
}

// List finds the workflows that go on and that a condition holds for.
func List(ctx context.Context, c client.Client, condition string) (all []*workflowpb.WorkflowExecutionInfo, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: "(" + condition + ") AND (ExecutionStatus = 'Running' OR ExecutionStatus = 'Paused')"}
	for {
		reply, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Executions...)
		if request.NextPageToken = reply.NextPageToken; len(request.NextPageToken) == 0 {
			return all, nil
		}
	}
}

// lastState is the last state of a workflow that is over, nil where nothing is left of it.
func lastState(ctx context.Context, c client.Client, id string) (state json.RawMessage, err error) {
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetTaskQueue() != ControlQueue {
		return nil, nil // an older program's
	}
	value, err := c.QueryWorkflow(ctx, id, info.GetExecution().GetRunId(), QueryState)
	if errors.As(err, new(*serviceerror.NotFound)) || errors.As(err, new(*serviceerror.QueryFailed)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return state, value.Get(&state)
}

// Reason is the innermost message of an error that came through activities and
// child workflows, without Temporal's wrapping, which names places and no reasons.
func Reason(err error) string {
	var app *temporal.ApplicationError
	for errors.As(err, &app) {
		inner := app.Unwrap()
		if inner == nil || !errors.As(inner, new(*temporal.ApplicationError)) {
			return app.Message()
		}
		err = inner
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return "timed out (" + timeout.TimeoutType().String() + ")"
	}
	return err.Error()
}

// ReasonType is the type of the innermost application error, empty when there is
// none.
func ReasonType(err error) (name string) {
	var app *temporal.ApplicationError
	for err != nil && errors.As(err, &app) {
		name, err = app.Type(), app.Unwrap()
	}
	return name
}

// Failed is the error with which a workflow ends that has failed. A workflow that fails
// because something that it called was cancelled counts as cancelled in Temporal, and
// callers could not distinguish that from a person's cancelling it.
func Failed(err error, cancelled bool) error {
	if cancelled || !errors.As(err, new(*temporal.CanceledError)) && !errors.As(err, new(*temporal.TerminatedError)) {
		return err
	}
	return temporal.NewApplicationError(Reason(err), ReasonType(err))
}
