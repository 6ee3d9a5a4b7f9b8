package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// encoded is a query's answer, as the client would decode it.
type encoded struct{ payloads *commonpb.Payloads }

func (e encoded) HasValue() bool { return true }
func (e encoded) Get(into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(e.payloads, into)
}

func answer(t *testing.T, v any) converter.EncodedValue {
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(t, err)
	return encoded{p}
}

// statuses answers status queries one after the other.
func statuses(t *testing.T, all ...control.Status) *mocks.Client {
	c := mocks.NewClient(t)
	runs(c, "pipeline/traffic", workflows.TypeService)
	for _, s := range all {
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).Return(answer(t, s), nil).Once()
	}
	return c
}

// runs lets a workflow of a type run under an ID, and nothing else.
func runs(c *mocks.Client, id, name string) {
	info := &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, Type: &commonpb.WorkflowType{Name: name}}
	c.On("DescribeWorkflowExecution", mock.Anything, id, "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil).Maybe()
	c.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(nil, serviceerror.NewNotFound("no such workflow")).Maybe()
}

func TestWaitServing(t *testing.T) {
	planning := control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Planning, Generation: 2, Serving: 1}
	serving := control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Serving, Generation: 2, Serving: 2}
	var seen []workflows.Phase
	ctl := control.New(statuses(t, planning, planning, serving), control.Options{Poll: time.Millisecond})
	s, err := ctl.WaitServing(t.Context(), "traffic", 2, func(s control.Status) { seen = append(seen, s.Phase) })
	require.NoError(t, err)
	assert.Equal(t, 2, s.Serving)
	assert.Equal(t, []workflows.Phase{workflows.Planning, workflows.Serving}, seen, "called with changes only")
}

func TestWaitServingFails(t *testing.T) {
	failed := control.Status{
		Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Serving, Generation: 3, Serving: 2,
		Failure: &workflows.Failure{Generation: 3, Reason: "it needs 4 cpu, 2 exist"},
	}
	ctl := control.New(statuses(t, failed), control.Options{})
	_, err := ctl.WaitServing(t.Context(), "traffic", 3, nil)
	var f *control.FailedError
	require.ErrorAs(t, err, &f)
	assert.ErrorContains(t, err, "4 cpu, 2 exist")
	assert.ErrorContains(t, err, "generation 2 goes on serving")
	assert.NotErrorIs(t, err, wire.ErrInfeasible)
	failed.Failure.Type = activities.TypeInfeasible
	_, err = control.New(statuses(t, failed), control.Options{}).WaitServing(t.Context(), "traffic", 3, nil)
	assert.ErrorIs(t, err, wire.ErrInfeasible)
}

// TestWaitServingWhateverServes: what was refused is no failure of what served before.
func TestWaitServingWhateverServes(t *testing.T) {
	refused := control.Status{
		Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Reconciling, Generation: 1, Serving: 1,
		Failure: &workflows.Failure{Generation: 2, Type: activities.TypeInfeasible, Reason: "it needs 4 cpu, 2 exist"},
	}
	serving := refused
	serving.Phase = workflows.Serving
	s, err := control.New(statuses(t, refused, serving), control.Options{Poll: time.Millisecond}).WaitServing(t.Context(), "traffic", 0, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, s.Serving)
	refused.Phase, refused.Pending = workflows.Planning, true
	s, err = control.New(statuses(t, refused), control.Options{}).WaitServing(t.Context(), "traffic", 0, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, s.Serving, "it serves while the other is tried again")
	refused.Phase, refused.Pending = workflows.Serving, false
	drained := control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Drained}
	s, err = control.New(statuses(t, drained), control.Options{}).WaitServing(t.Context(), "traffic", 0, nil)
	require.NoError(t, err)
	assert.Zero(t, s.Serving)
	refused.Serving = 0
	_, err = control.New(statuses(t, refused), control.Options{}).WaitServing(t.Context(), "traffic", 0, nil)
	require.ErrorContains(t, err, "4 cpu, 2 exist")
}

// TestKnownHindrancesEndTheWait: where the server cannot write, no command waits for it.
func TestKnownHindrancesEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("nothing can be written")
		late := serviceerror.NewDeadlineExceeded("context deadline exceeded")
		o := control.Options{Hindrance: func() error { return full }}
		began := time.Now()
		c := statuses(t)
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).
			Return(answer(t, control.Status{Phase: workflows.Reconciling}), nil)
		_, err := control.New(c, o).WaitServing(t.Context(), "traffic", 2, nil)
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, "still reconciling")

		c = mocks.NewClient(t)
		c.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(nil, late)
		_, err = control.New(c, o).Status(t.Context(), "traffic")
		require.ErrorIs(t, err, full)
		require.Less(t, time.Since(began), 5*time.Second, "of virtual time")

		require.ErrorContains(t, control.Explain(late), "as on a full disk")
		require.ErrorIs(t, control.Explain(late), late)
		require.NoError(t, control.Explain(nil))
		require.Equal(t, full, control.Explain(full), "which is explained already")
	})
}

// TestWaitServingAwaitsTheChangeUnderWay: what has failed before is made again, as where the
// host or the gateway that was to do it had left and has come back.
func TestWaitServingAwaitsTheChangeUnderWay(t *testing.T) {
	again := control.Status{
		Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Planning, Generation: 3, Pending: true,
		Failure: &workflows.Failure{Generation: 3, Type: activities.TypeLeft, Reason: "the gateway has left the fleet", RetryAt: time.Now()},
	}
	serving := control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Serving, Generation: 3, Serving: 3}
	_, err := control.New(statuses(t, again, serving), control.Options{Poll: time.Millisecond}).WaitServing(t.Context(), "traffic", 3, nil)
	require.NoError(t, err)
	failed := again
	failed.Pending = false
	_, err = control.New(statuses(t, again, failed), control.Options{Poll: time.Millisecond}).WaitServing(t.Context(), "traffic", 3, nil)
	require.ErrorContains(t, err, "tries again at")
}

func TestWaitServingEndsWithItsContext(t *testing.T) {
	c := mocks.NewClient(t)
	runs(c, "pool/traffic", workflows.TypeService)
	c.On("QueryWorkflow", mock.Anything, "pool/traffic", mock.Anything, mock.Anything).
		Return(answer(t, control.Status{Phase: workflows.Profiling}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := control.New(c, control.Options{Poll: time.Millisecond}).WaitServing(ctx, "traffic", 1, nil)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "still profiling")
}

// TestALateAnswerIsAwaited: on a machine with much else to do, the server takes longer than
// its client gives a call. One that never answers is given up.
func TestALateAnswerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := serviceerror.NewDeadlineExceeded("query timed out before a worker could process it")
		slowly := func(mock.Arguments) { time.Sleep(10 * time.Second) }
		c := mocks.NewClient(t)
		c.On("ListWorkflow", mock.Anything, mock.Anything).Run(slowly).Return(nil, late).Twice()
		c.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil).Once()
		c.On("DescribeWorkflowExecution", mock.Anything, "pipeline/traffic", "").Run(slowly).Return(nil, late).Twice()
		runs(c, "pipeline/traffic", workflows.TypeService)
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).Run(slowly).Return(nil, late).Times(3)
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).
			Return(nil, serviceerror.NewWorkflowNotReady("Unable to query workflow due to Workflow Task in failed state.")).Once()
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).
			Return(answer(t, control.Status{Name: "traffic", Phase: workflows.Serving, Generation: 1, Serving: 1}), nil).Once()
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).Run(slowly).Return(nil, late)
		ctl := control.New(c, control.Options{})
		require.NoError(t, ctl.CheckOld(t.Context()))
		s, err := ctl.WaitServing(t.Context(), "traffic", 1, nil)
		require.NoError(t, err)
		assert.Equal(t, 1, s.Serving)

		begin := time.Now()
		_, err = ctl.WaitServing(t.Context(), "traffic", 2, nil)
		require.ErrorIs(t, err, late)
		assert.InDelta(t, time.Minute, time.Since(begin), float64(15*time.Second))
	})
}

func TestNotFound(t *testing.T) {
	gone := serviceerror.NewNotFound("no such workflow")
	c := mocks.NewClient(t)
	runs(c, "nothing", "")
	c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, gone)
	ctl := control.New(c, control.Options{})
	_, status := ctl.Status(t.Context(), "traffic")
	_, rescale := ctl.Rescale(t.Context(), "traffic", workflows.RescaleRequest{Rate: 1})
	_, deleted := ctl.Delete(t.Context(), "traffic", "")
	for _, err := range []error{status, rescale, deleted, ctl.SendMeasures(t.Context(), autoscale.Measures{Pipeline: "traffic"})} {
		assert.ErrorIs(t, err, control.ErrNotFound)
		assert.ErrorContains(t, err, `"traffic"`)
	}
	view, err := ctl.Fleet(t.Context())
	require.NoError(t, err)
	assert.Empty(t, view.Hosts)
}

// A service that is gone may come back as another kind.
func TestAServiceThatChangesItsKindIsFoundAgain(t *testing.T) {
	c := statuses(t, control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Serving},
		control.Status{Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Deleted})
	ctl := control.New(c, control.Options{})
	s, err := ctl.Status(t.Context(), "traffic")
	require.NoError(t, err)
	assert.Equal(t, pipelines.KindPipeline, s.Kind)
	c.ExpectedCalls = slices.DeleteFunc(c.ExpectedCalls, func(c *mock.Call) bool { return c.Method == "DescribeWorkflowExecution" })
	runs(c, "function/traffic", workflows.TypeService)
	c.On("QueryWorkflow", mock.Anything, "function/traffic", "", workflows.QueryStatus).
		Return(answer(t, control.Status{Kind: pipelines.KindFunction, Name: "traffic"}), nil)
	s, err = ctl.Status(t.Context(), "traffic")
	require.NoError(t, err)
	assert.Equal(t, pipelines.KindFunction, s.Kind)
}

func TestApplyRejectsBeforeAnythingStarts(t *testing.T) {
	ctl := control.New(mocks.NewClient(t), control.Options{})
	_, err := ctl.Apply(t.Context(), workflows.ApplyRequest{})
	assert.ErrorContains(t, err, "no service with a name")
}

// function is a spec that can be served.
func function() scheduler.Spec {
	one := pipelines.Curve{Beta: 1, Gamma: 1}
	return scheduler.Spec{
		Provider: &pipelines.Provider{Name: "c", URL: "http://127.0.0.1:1", VCPUSecond: 1, VCPU: pipelines.Grid{Min: 1, Max: 1, Step: 1}},
		Function: &pipelines.Function{
			Name: "traffic", Provider: "c", Applications: []pipelines.Application{{Name: "a", SLO: time.Second, Rate: 1}},
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{{Batch: 1, Avg: one, Max: one}}},
		},
	}
}

func TestNamesAreUniqueOverAllKinds(t *testing.T) {
	c := mocks.NewClient(t)
	runs(c, "pipeline/traffic", workflows.TypeService)
	_, err := control.New(c, control.Options{}).Apply(t.Context(), workflows.ApplyRequest{Spec: function()})
	assert.ErrorContains(t, err, `function "traffic" has the name of a pipeline that runs`)
	assert.ErrorContains(t, err, "harpagon down traffic, or take another name")
}

func TestWorkflowsOfAnOlderProgramAreRefused(t *testing.T) {
	c := mocks.NewClient(t)
	runs(c, "function/traffic", "function")
	_, err := control.New(c, control.Options{}).Apply(t.Context(), workflows.ApplyRequest{Spec: function()})
	var old *control.OldError
	require.ErrorAs(t, err, &old)
	assert.Equal(t, []string{"function/traffic"}, old.IDs)

	execution := func(id, queue string) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, TaskQueue: queue}
	}
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflowpb.WorkflowExecutionInfo{execution("pipeline/old", activities.OldControlQueue), execution("fleet", activities.ControlQueue)},
	}, nil)
	err = control.New(c, control.Options{}).CheckOld(t.Context())
	require.ErrorAs(t, err, &old)
	assert.Equal(t, []string{"pipeline/old"}, old.IDs)
	assert.ErrorContains(t, err, "apply the declarations again; or use another namespace")
}

// A workflow's refusal is returned in its own words, without Temporal's about types and
// attempts.
func TestRefusalsAreInPlainWords(t *testing.T) {
	c := statuses(t)
	why := temporal.NewApplicationErrorWithCause("it has served nothing else", "wrapError", errors.New("nothing else"))
	c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, why)
	_, err := control.New(c, control.Options{}).Rollback(t.Context(), "traffic", workflows.RollbackRequest{})
	require.ErrorIs(t, err, why)
	assert.EqualError(t, err, "it has served nothing else")
}

func TestListFollowsPages(t *testing.T) {
	c := mocks.NewClient(t)
	page := func(name, next string) *workflowservice.ListWorkflowExecutionsResponse {
		return &workflowservice.ListWorkflowExecutionsResponse{
			Executions:    []*workflowpb.WorkflowExecutionInfo{{Execution: &commonpb.WorkflowExecution{WorkflowId: "pool/" + name}}},
			NextPageToken: []byte(next),
		}
	}
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(page("b", "more"), nil).Once()
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(page("a", ""), nil).Once()
	c.On("QueryWorkflow", mock.Anything, activities.FleetID, "", activities.FleetDevices).Return(nil, serviceerror.NewNotFound("nobody has joined"))
	names, err := control.New(c, control.Options{}).List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
}

var _ client.Client = (*mocks.Client)(nil)

func ExampleFailedError() {
	err := &control.FailedError{Kind: pipelines.KindPipeline, Service: "traffic", Serving: 1, Failure: workflows.Failure{Generation: 2, Reason: "4 cpu are needed, 2 exist"}}
	fmt.Println(err)
	err.Ended = true
	fmt.Println(err)
	// Output:
	// control: pipeline "traffic": generation 2 could not be carried out: 4 cpu are needed, 2 exist; waits for a new spec or another host; generation 1 goes on serving
	// control: pipeline "traffic": generation 2 could not be carried out: 4 cpu are needed, 2 exist; the next start tries it again
}
