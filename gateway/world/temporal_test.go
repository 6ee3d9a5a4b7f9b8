package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// temporalServer runs the workflows of the control role in Temporal's test environment, one
// for that of the fleet and one for that of each service, and is the client of those who call
// them. What is between it and other processes waits while control is away.
//
// What the environment cannot: a workflow cannot continue as new, because an environment
// lasts for as long as what its workflow has started; cancelling a workflow ends it at once
// (see start); and it finds no activity of a workflow with a # in its ID (see signs).
type temporalServer struct {
	client.Client // whose other methods are not called
	world         *world
	commands      *control.Control

	mu      sync.Mutex
	running map[string]*environment // by the workflow's ID
	takers  map[string]*taker       // by task queue
	over    map[string]bool         // activities by their tokens, and workflows by ID, that were cancelled
}

// environment runs one workflow, and those that it starts.
type environment struct {
	*testsuite.TestWorkflowEnvironment
	id      string
	updates int           // in the environment's loop
	done    chan struct{} // closed when the workflow has ended
}

func newTemporal(w *world) *temporalServer {
	t := &temporalServer{world: w, running: map[string]*environment{}, takers: map[string]*taker{}, over: map[string]bool{}}
	t.commands = control.New(t, control.Options{By: "a world", Settings: workflows.Settings{RetryAfter: time.Second, PrepareTimeout: 10 * time.Second}})
	return t
}

// Types of the workflows that environments run.
const (
	rootFleet   = "the fleet"
	rootService = "a service"
)

// rooted is a workflow as an environment runs it. Time there is that of the world as long as
// an activity is under way, and is skipped otherwise; so one always is. And attempts of
// activities that are to be made again hang if the environment has ended by then; so it
// goes on for a while.
func rooted[S any](e *environment, run func(workflow.Context, S) error) func(workflow.Context, S) error {
	return func(ctx workflow.Context, in S) error {
		workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: workflows.Forever}), "Live")
		err := run(ctx, in)
		close(e.done)
		left, _ := workflow.NewDisconnectedContext(ctx)
		return errors.Join(err, workflow.Sleep(left, 5*time.Minute))
	}
}

// start starts a workflow; nothing where it runs.
func (t *temporalServer) start(id, kind string, input any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.running[id]; e != nil && !e.over() {
		return
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := &environment{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), id: id, done: make(chan struct{})}
	e.SetTestTimeout(workflows.Forever)
	e.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Hour, Interceptors: []interceptor.WorkerInterceptor{&signs{}}})
	e.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: activities.ControlQueue})
	workflows.Register(e)
	e.RegisterWorkflowWithOptions(rooted(e, workflows.Fleet), workflow.RegisterOptions{Name: rootFleet})
	e.RegisterWorkflowWithOptions(rooted(e, workflows.Service), workflow.RegisterOptions{Name: rootService})
	t.register(e)
	e.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _, name string, arg any) error { return t.SignalWorkflow(t.world.life, id, "", name, arg) }).Maybe()
	e.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(errors.New("it does not run")).Maybe()
	// The environment reports neither to activities: it ends a cancelled workflow at once, without
	// running its cleanup.
	e.SetOnChildWorkflowStartedListener(func(i *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		t.begins(i.WorkflowExecution.ID)
	})
	e.SetOnActivityCanceledListener(func(i *activity.Info) { t.cancelled(string(i.TaskToken)) })
	e.SetOnChildWorkflowCompletedListener(func(i *workflow.Info, _ converter.EncodedValue, _ error) { t.cancelled(i.WorkflowExecution.ID) })
	e.SetOnActivityCompletedListener(func(i *activity.Info, _ converter.EncodedValue, err error) {
		if err != nil {
			t.world.history.note("activity %s of %s has failed: %v", i.ActivityType.Name, i.WorkflowExecution.ID, err)
		}
	})
	t.running[id] = e
	t.world.ends.Go(func() {
		e.ExecuteWorkflow(kind, input)
		t.world.history.note("workflow %s ends: %v", id, e.GetWorkflowError())
	})
}

func (e *environment) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// begins notes that a workflow runs, maybe another of that ID before.
func (t *temporalServer) begins(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.over, id)
}

func (t *temporalServer) cancelled(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over[what] = true
}

// environment is that of a workflow which runs.
func (t *temporalServer) environment(id string) (*environment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.running[id]
	if e == nil || e.over() {
		return nil, serviceerror.NewNotFound("no workflow " + id + " runs")
	}
	return e, nil
}

// inside runs f in the loop of the environment and waits for what it sends.
func (e *environment) inside(ctx context.Context, f func(done chan<- error)) error {
	done := make(chan error, 1)
	e.RegisterDelayedCallback(func() { f(done) }, 0)
	select {
	case err := <-done:
		return err
	case <-e.done:
		return serviceerror.NewNotFound("workflow " + e.id + " has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The client.

// reply is the answer to an update.
type reply struct {
	client.WorkflowUpdateHandle
	text []byte
}

func (r reply) Get(_ context.Context, into any) error { return json.Unmarshal(r.text, into) }

func (t *temporalServer) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	t.world.awaitControl(ctx)
	e, err := t.environment(o.WorkflowID)
	if err != nil {
		return nil, err
	}
	var r reply
	err = e.inside(ctx, func(done chan<- error) {
		e.updates++
		e.UpdateWorkflow(o.UpdateName, fmt.Sprint(e.updates), &testsuite.TestUpdateCallback{
			OnReject: func(err error) { done <- err },
			OnAccept: func() {},
			OnComplete: func(v any, err error) {
				if err == nil {
					r.text, err = json.Marshal(v) // it is the workflow's own
				}
				done <- err
			},
		}, o.Args...)
	})
	t.world.awaitControl(ctx)
	return r, err
}

// begun is a workflow that is to be started with an update.
type begun struct {
	client.WithStartWorkflowOperation
	id    string
	input any
}

func (t *temporalServer) NewWithStartWorkflowOperation(o client.StartWorkflowOptions, _ any, args ...any) client.WithStartWorkflowOperation {
	return begun{id: o.ID, input: args[0]}
}

func (t *temporalServer) UpdateWithStartWorkflow(ctx context.Context, o client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	t.world.awaitControl(ctx)
	switch b := o.StartWorkflowOperation.(begun); b.id {
	case activities.FleetID:
		t.start(b.id, rootFleet, (*workflows.FleetState)(nil))
	default:
		t.start(b.id, rootService, b.input)
	}
	return t.UpdateWorkflow(ctx, o.UpdateOptions)
}

func (t *temporalServer) SignalWorkflow(ctx context.Context, id, _, name string, arg any) error {
	t.world.awaitControl(ctx)
	e, err := t.environment(id)
	if err == nil {
		e.SignalWorkflow(name, arg)
	}
	return err
}

func (t *temporalServer) QueryWorkflow(ctx context.Context, id, _, name string, args ...any) (v converter.EncodedValue, err error) {
	t.world.awaitControl(ctx)
	e, err := t.environment(id)
	if err != nil {
		return nil, err
	}
	return v, e.inside(ctx, func(done chan<- error) {
		var err error
		v, err = e.TestWorkflowEnvironment.QueryWorkflow(name, args...)
		done <- err
	})
}

func (t *temporalServer) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	_, err := t.environment(id)
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, Type: &commonpb.WorkflowType{Name: workflows.TypeService},
	}}, err
}

// end is a workflow whose end is waited for.
type end struct {
	client.WorkflowRun
	*environment
}

func (e end) Get(ctx context.Context, _ any) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *temporalServer) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	return end{environment: t.running[id]}
}
