//go:build !noserver

package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// person does in a system what a person can do in Temporal's UI.
type person struct {
	*testing.T
	client.Client
	system   *local.System
	commands *control.Control
	rate     float64
	ended    *commonpb.WorkflowExecution // the run that was last cancelled, terminated or reset
}

const personNamespace = "default"

// quick is a pipeline of one module that is emulated.
func quick(t *testing.T, rate float64) pipelines.Document {
	p, err := build.New("own").SLO(time.Second).Rate(rate).Input("frame", "FP32", 4).
		Module(build.Profiled("m", pipelines.Point{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 5 * time.Millisecond}).In("x", build.FromInput("frame"))).
		Output("y", build.From("m", "y")).Build()
	require.NoError(t, err)
	return pipelines.Document{Pipelines: []pipelines.Pipeline{p}, Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}}
}

func newPerson(t *testing.T) *person {
	doc := quick(t, 5)
	o := local.Options{Document: &doc, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Engine: "emulated", Cores: 2, Progress: func(s string) { t.Log(s) }}
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return &person{T: t, Client: s.Temporal(), system: s, commands: system.Control(s.Temporal(), o), rate: 5}
}

// find is the running workflow whose ID begins so.
func (p *person) find(prefix string) (id string) {
	require.Eventually(p, func() bool {
		all, err := p.ListWorkflow(p.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'"})
		if err != nil {
			return false
		}
		for _, e := range all.Executions {
			if strings.HasPrefix(e.Execution.WorkflowId, prefix) {
				id = e.Execution.WorkflowId
			}
		}
		return id != ""
	}, time.Minute, 50*time.Millisecond, prefix)
	return id
}

func (p *person) do(what, id string) {
	ctx := p.Context()
	at := &commonpb.WorkflowExecution{WorkflowId: id}
	var err error
	if p.ended = nil; !strings.Contains(what, "its activity") {
		d, err := p.DescribeWorkflowExecution(ctx, id, "")
		require.NoError(p, err)
		p.ended = d.WorkflowExecutionInfo.Execution
	}
	switch what {
	case "cancel":
		err = p.CancelWorkflow(ctx, id, "")
	case "terminate":
		err = p.TerminateWorkflow(ctx, id, "", "by a person")
	case "reset to the first", "reset to the last":
		var first, last int64
		events := p.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(p, err)
			if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				if first == 0 {
					first = e.EventId
				}
				last = e.EventId
			}
		}
		if what == "reset to the first" {
			last = first
		}
		if last == 0 { // nothing has been decided yet
			p.ended = nil
			return
		}
		_, err = p.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: personNamespace, WorkflowExecution: at, Reason: "by a person", WorkflowTaskFinishEventId: last, RequestId: fmt.Sprint(time.Now().UnixNano()),
		})
	case "pause its activity", "reset its activity":
		d, e := p.DescribeWorkflowExecution(ctx, id, "")
		require.NoError(p, e)
		require.NotEmpty(p, d.PendingActivities)
		a := d.PendingActivities[0].ActivityId
		if what == "pause its activity" {
			_, err = p.WorkflowService().PauseActivity(ctx, &workflowservice.PauseActivityRequest{
				Namespace: personNamespace, Execution: at, Activity: &workflowservice.PauseActivityRequest_Id{Id: a}, Reason: "by a person",
			})
		} else {
			_, err = p.WorkflowService().ResetActivity(ctx, &workflowservice.ResetActivityRequest{
				Namespace: personNamespace, Execution: at, Activity: &workflowservice.ResetActivityRequest_Id{Id: a},
			})
		}
	}
	if !errors.As(err, new(*serviceerror.NotFound)) { // it has ended by itself
		require.NoError(p, err, what)
	}
}

// infer sends one request.
func (p *person) infer() error {
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Second)
	defer cancel()
	_, err := p.system.Client().Infer(ctx, "own", sdk.Inputs{"frame": sdk.Float32(make([]float32, 4), 4)})
	return err
}

// healed waits until all is as it should be: whatever the fleet counts on runs and is not
// paused, the service has executors that are attached and no others, and answers requests.
func (p *person) healed(what string) {
	why := ""
	ok := assert.Eventually(p, func() bool {
		why = p.wrong()
		return why == ""
	}, 3*time.Minute, 100*time.Millisecond)
	require.True(p, ok, "after %s: %s", what, why)
}

// wrong is what is not as it should be.
func (p *person) wrong() string {
	s, err := p.commands.Status(p.Context(), "own")
	if err != nil {
		return err.Error()
	}
	if s.Phase != workflows.Serving || s.Pending || s.Failure != nil || len(s.Missing) > 0 || len(s.Executors) == 0 {
		return s.Describe()
	}
	view, err := p.commands.Fleet(p.Context())
	if err != nil {
		return err.Error()
	}
	wanted := map[string]bool{activities.FleetID: true, "pipeline/own": true}
	for _, h := range view.Hosts {
		wanted[workflows.HostID(h.Name)] = true
	}
	for _, m := range view.Members {
		wanted[workflows.MemberID(m)] = true
	}
	if len(view.Hosts) != 1 || len(view.Members) != 1 || len(view.Reserved["pipeline/own"]) != len(s.Executors) {
		return fmt.Sprintf("the fleet is %+v", view)
	}
	all, err := activities.List(p.Context(), p, "WorkflowType != 'none'")
	if err != nil {
		return err.Error()
	}
	executors := 0
	for _, e := range all {
		if p.ended != nil && e.Execution.RunId == p.ended.RunId {
			return e.Execution.WorkflowId + " has not ended yet"
		}
		id := e.Execution.WorkflowId
		if e.Type.Name == workflows.TypeExecutor {
			executors++
		} else if !wanted[id] {
			return id + " runs"
		}
		delete(wanted, id)
		d, err := p.DescribeWorkflowExecution(p.Context(), id, "")
		if err != nil {
			return err.Error()
		}
		for _, a := range d.PendingActivities {
			if a.Paused {
				return id + " has a paused activity"
			}
		}
	}
	if len(wanted) > 0 || executors != len(s.Executors) {
		return fmt.Sprintf("%v do not run; %d executors do, for %d", wanted, executors, len(s.Executors))
	}
	if err := p.infer(); err != nil {
		return err.Error()
	}
	return ""
}

// apply applies another rate.
func (p *person) apply() workflows.ChangeReply {
	p.rate++
	doc := quick(p.T, p.rate)
	reply, err := p.commands.Apply(p.Context(), workflows.ApplyRequest{Spec: scheduler.Specs(&doc)[0]})
	require.NoError(p, err)
	return reply
}

// TestWhatPeopleDoInTemporalsUI holds that serving repairs itself, whatever workflow or
// activity somebody cancels, terminates, resets or pauses, and that changes go on; and that a
// service whose workflow is cancelled ends whole.
func TestWhatPeopleDoInTemporalsUI(t *testing.T) {
	testkit.Long(t)
	p := newPerson(t)
	p.healed("the start")
	for _, kind := range []string{"executor/", "host/", "gateway/", "fleet", "pipeline/"} {
		for _, what := range []string{"cancel", "terminate", "reset to the first", "reset to the last", "pause its activity", "reset its activity"} {
			alone := kind == "fleet" || kind == "pipeline/"
			if alone && strings.Contains(what, "its activity") || kind == "pipeline/" && what == "cancel" {
				continue
			}
			began := time.Now()
			p.do(what, p.find(kind))
			p.healed(what + " " + kind)
			t.Logf("%s %s: healed after %v", kind, what, time.Since(began))
		}
	}
	_, err := p.commands.WaitServing(t.Context(), "own", p.apply().Generation, nil)
	require.NoError(t, err)
	for _, what := range []string{"cancel", "terminate", "reset to the first"} {
		p.apply()
		p.doAtOnce(what, "reschedule/")
		p.healed(what + " a change")
	}

	p.do("cancel", "pipeline/own")
	require.Eventually(t, func() bool {
		_, err := p.commands.Status(t.Context(), "own")
		view, failed := p.commands.Fleet(t.Context())
		left, e := activities.List(t.Context(), p, "WorkflowType = 'executor' OR WorkflowType = 'service'")
		return errors.Is(err, control.ErrNotFound) && failed == nil && len(view.Reserved)+len(view.Services) == 0 && e == nil && len(left) == 0
	}, 3*time.Minute, 100*time.Millisecond, "a service that is cancelled ends whole")
	require.ErrorIs(t, p.infer(), wire.ErrNotFound)
}

// doAtOnce does something to a workflow that ends by itself soon, if it is still there.
func (p *person) doAtOnce(what, prefix string) {
	for range 200 {
		all, err := activities.List(p.Context(), p, "WorkflowType != 'none'")
		require.NoError(p, err)
		for _, e := range all {
			if id := e.Execution.WorkflowId; strings.HasPrefix(id, prefix) {
				p.do(what, id)
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}
