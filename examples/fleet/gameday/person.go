package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// action is done to the workflow of an ID.
type action func(ctx context.Context, c client.Client, id string, r *rand.Rand) error

// personFaults are what a person can do in Temporal's UI, to workflows of every type. A
// service's is not cancelled, which ends it.
func (f *fleet) personFaults(add func(string, string, func(context.Context, *rand.Rand) error)) {
	for _, kind := range []string{"executor", "host", "member", "fleet", "service"} {
		for what, do := range map[string]action{
			"cancel": func(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
				return c.CancelWorkflow(ctx, id, "")
			},
			"terminate": func(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
				return c.TerminateWorkflow(ctx, id, "", "game day")
			},
			"reset": reset, "pause activity of": pause,
		} {
			alone := kind == "fleet" || kind == "service" // without an activity that goes on
			if what == "cancel" && kind == "service" || what == "pause activity of" && alone {
				continue
			}
			add(what, kind+"'s workflow", func(ctx context.Context, r *rand.Rand) error { return f.person(ctx, kind, r, do) })
		}
	}
}

// person does something to a workflow of a type.
func (f *fleet) person(ctx context.Context, kind string, r *rand.Rand, do action) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: f.address(relayed + temporal)})
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running' AND WorkflowType = '" + kind + "'"})
	if err != nil {
		return err
	}
	if len(all.Executions) == 0 {
		return fmt.Errorf("no workflow of type %s runs", kind)
	}
	id := all.Executions[r.IntN(len(all.Executions))].Execution.WorkflowId
	fmt.Println("   ", id)
	err = do(ctx, c, id, r)
	wait(ctx, 4*time.Second) // until those hear of it who are to
	return err
}

// reset has a workflow go back to one of its decisions.
func reset(ctx context.Context, c client.Client, id string, r *rand.Rand) error {
	var decisions []int64
	events := c.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			decisions = append(decisions, e.EventId)
		}
	}
	_, err := c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		Reason: "game day", RequestId: time.Now().String(), WorkflowTaskFinishEventId: decisions[r.IntN(len(decisions))],
	})
	return err
}

// pause has the activity stand that a workflow holds.
func pause(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return err
	}
	for _, a := range d.PendingActivities {
		_, err := c.WorkflowService().PauseActivity(ctx, &workflowservice.PauseActivityRequest{
			Namespace: client.DefaultNamespace, Execution: d.WorkflowExecutionInfo.Execution,
			Activity: &workflowservice.PauseActivityRequest_Id{Id: a.ActivityId}, Reason: "game day",
		})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
	}
	return nil
}
