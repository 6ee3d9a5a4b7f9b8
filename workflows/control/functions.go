package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/workflows"
)

// FunctionStatus is a function at one moment; Describe prints it.
type FunctionStatus = workflows.FunctionStatus

// ApplyFunction makes the spec the one in force, starting the function's
// workflow when it does not run. It returns when the spec is accepted; see
// WaitFunction.
func (c *Control) ApplyFunction(ctx context.Context, r workflows.FunctionApply) (workflows.ChangeReply, error) {
	name := r.Spec.Function.Name
	if err := workflows.CheckFunctionSpec(r.Spec); err != nil {
		return workflows.ChangeReply{}, err // do not start a workflow for it
	}
	start := c.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID:                       workflows.FunctionID(name),
		TaskQueue:                activities.ControlQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "function " + name,
	}, workflows.TypeFunction, workflows.FunctionState{Name: name, Settings: c.options.Settings})
	var reply workflows.ChangeReply
	handle, err := c.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          completedAt(workflows.FunctionID(name), workflows.UpdateApply, r),
	})
	if err == nil {
		err = handle.Get(ctx, &reply)
	}
	return reply, explain("function", name, err)
}

// DeleteFunction stops serving a function and waits until its workflow has
// ended.
func (c *Control) DeleteFunction(ctx context.Context, name, why string) error {
	if _, err := c.updateFunction(ctx, name, workflows.UpdateDelete, why); err != nil {
		return err
	}
	return c.client.GetWorkflow(ctx, workflows.FunctionID(name), "").Get(ctx, nil)
}

// DrainFunction stops serving a function and keeps its spec.
func (c *Control) DrainFunction(ctx context.Context, name, why string) (workflows.ChangeReply, error) {
	return c.updateFunction(ctx, name, workflows.UpdateDrain, why)
}

// FunctionStatus tells how a function is. The error is ErrNotFound when it does
// not run.
func (c *Control) FunctionStatus(ctx context.Context, name string) (FunctionStatus, error) {
	var s FunctionStatus
	err := c.query(ctx, workflows.FunctionID(name), &s)
	if err == nil && s.Phase == workflows.Deleted {
		err = fmt.Errorf("function %q: %w", name, ErrNotFound)
	}
	return s, explain("function", name, err)
}

// Functions names the functions that run, sorted, as fresh as List.
func (c *Control) Functions(ctx context.Context) ([]string, error) {
	return c.list(ctx, workflows.TypeFunction, workflows.FunctionID(""))
}

// WaitFunction waits until the function serves the generation or a later one,
// telling progress, which may be nil, of every change on the way. It fails with
// a *FailedError when the generation cannot be carried out.
func (c *Control) WaitFunction(ctx context.Context, name string, generation int, progress func(FunctionStatus)) (FunctionStatus, error) {
	tick := time.NewTicker(c.options.Poll)
	defer tick.Stop()
	var last string
	for {
		s, err := c.FunctionStatus(ctx, name)
		if err != nil {
			return s, err
		}
		if now := fmt.Sprint(s.Phase, s.Generation, s.Serving, s.Asked != nil, len(s.Decisions)); now != last && progress != nil {
			last = now
			progress(s)
		}
		if f := s.Failure; f != nil && f.Generation >= generation && !s.Pending {
			return s, &FailedError{Function: true, Pipeline: name, Failure: *f, Serving: s.Serving}
		}
		if s.Serving >= generation && s.Phase == workflows.Serving {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, fmt.Errorf("control: function %q is still %s: %w", name, s.Phase, context.Cause(ctx))
		}
	}
}

// SendFunctionMeasures tells a function what its gateway saw.
func (c *Control) SendFunctionMeasures(ctx context.Context, m functions.Measures) error {
	return explain("function", m.Function, c.client.SignalWorkflow(ctx, workflows.FunctionID(m.Function), "", workflows.SignalMeasures, m))
}

// functionsStarted tells every function that a gateway has started.
func (c *Control) functionsStarted(ctx context.Context, address string) error {
	names, err := c.Functions(ctx)
	for _, name := range names {
		sent := c.client.SignalWorkflow(ctx, workflows.FunctionID(name), "", workflows.SignalGatewayStarted, address)
		err = errors.Join(err, explain("function", name, sent))
	}
	return err
}

func (c *Control) updateFunction(ctx context.Context, function, name string, arg any) (reply workflows.ChangeReply, err error) {
	reply, err = c.send(ctx, completedAt(workflows.FunctionID(function), name, arg))
	return reply, explain("function", function, err)
}
