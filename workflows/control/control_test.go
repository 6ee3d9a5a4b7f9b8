package control_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"github.com/harpagon/harpagon/scheduler/autoscale"
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
	for _, s := range all {
		c.On("QueryWorkflow", mock.Anything, "pipeline/traffic", "", workflows.QueryStatus).Return(answer(t, s), nil).Once()
	}
	return c
}

func TestWaitServing(t *testing.T) {
	planning := control.Status{Pipeline: "traffic", Phase: workflows.Planning, Generation: 2, Serving: 1}
	serving := control.Status{Pipeline: "traffic", Phase: workflows.Serving, Generation: 2, Serving: 2}
	var seen []workflows.Phase
	ctl := control.New(statuses(t, planning, planning, serving), control.Options{Poll: time.Millisecond})
	s, err := ctl.WaitServing(t.Context(), "traffic", 2, func(s control.Status) { seen = append(seen, s.Phase) })
	require.NoError(t, err)
	assert.Equal(t, 2, s.Serving)
	assert.Equal(t, []workflows.Phase{workflows.Planning, workflows.Serving}, seen, "told of changes only")
}

func TestWaitServingFails(t *testing.T) {
	failed := control.Status{
		Pipeline: "traffic", Phase: workflows.Serving, Generation: 3, Serving: 2,
		Failure: &workflows.Failure{Generation: 3, Reason: "it needs 4 cpu, 2 exist"},
	}
	ctl := control.New(statuses(t, failed), control.Options{})
	_, err := ctl.WaitServing(t.Context(), "traffic", 3, nil)
	var f *control.FailedError
	require.ErrorAs(t, err, &f)
	assert.ErrorContains(t, err, "4 cpu, 2 exist")
	assert.ErrorContains(t, err, "generation 2 goes on serving")
}

func TestWaitServingEndsWithItsContext(t *testing.T) {
	c := mocks.NewClient(t)
	c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(answer(t, control.Status{Phase: workflows.Profiling}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := control.New(c, control.Options{Poll: time.Millisecond}).WaitServing(ctx, "traffic", 1, nil)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "still profiling")
}

func TestNotFound(t *testing.T) {
	gone := serviceerror.NewNotFound("no such workflow")
	c := mocks.NewClient(t)
	c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, gone)
	c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, gone)
	c.On("SignalWorkflow", mock.Anything, "pipeline/traffic", "", workflows.SignalMeasures, mock.Anything).Return(gone)
	ctl := control.New(c, control.Options{})
	_, status := ctl.Status(t.Context(), "traffic")
	_, rescale := ctl.Rescale(t.Context(), "traffic", workflows.RescaleRequest{Rate: 1})
	for _, err := range []error{
		status, rescale, ctl.Delete(t.Context(), "traffic", ""),
		ctl.SendMeasures(t.Context(), autoscale.Measures{Pipeline: "traffic"}),
	} {
		assert.ErrorIs(t, err, control.ErrNotFound)
		assert.ErrorContains(t, err, `"traffic"`)
	}
	view, err := ctl.Fleet(t.Context())
	require.NoError(t, err)
	assert.Empty(t, view.Hosts)
}

func TestApplyRejectsBeforeAnythingStarts(t *testing.T) {
	ctl := control.New(mocks.NewClient(t), control.Options{})
	_, err := ctl.Apply(t.Context(), workflows.ApplyRequest{})
	assert.ErrorContains(t, err, "no name")
}

func TestListFollowsPages(t *testing.T) {
	c := mocks.NewClient(t)
	page := func(name, next string) *workflowservice.ListWorkflowExecutionsResponse {
		return &workflowservice.ListWorkflowExecutionsResponse{
			Executions:    []*workflowpb.WorkflowExecutionInfo{{Execution: &commonpb.WorkflowExecution{WorkflowId: "pipeline/" + name}}},
			NextPageToken: []byte(next),
		}
	}
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(page("b", "more"), nil).Once()
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(page("a", ""), nil).Once()
	names, err := control.New(c, control.Options{}).List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
}

var _ client.Client = (*mocks.Client)(nil)

func ExampleFailedError() {
	err := &control.FailedError{Pipeline: "traffic", Serving: 1, Failure: workflows.Failure{Generation: 2, Reason: "4 cpu are needed, 2 exist"}}
	fmt.Println(err)
	// Output:
	// control: pipeline "traffic": generation 2 could not be carried out: 4 cpu are needed, 2 exist; waits for a new spec or another host; generation 1 goes on serving
}
