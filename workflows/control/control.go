package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/workflows"
)

// Status is a pipeline at one moment; Describe prints it.
type Status = workflows.Status

// ErrNotFound says that no such pipeline or function runs.
var ErrNotFound = errors.New("control: nothing of that name runs; apply it first")

// Options configures a Control.
type Options struct {
	Settings workflows.Settings // of pipelines that Apply starts
	Poll     time.Duration      // pace of WaitServing; 0 means DefaultPoll
}

// DefaultPoll is the pace at which WaitServing asks.
const DefaultPoll = 250 * time.Millisecond

// Control sends commands and asks questions. It is safe for concurrent use.
type Control struct {
	client  client.Client
	options Options
}

// New makes a Control over a client of the namespace in which the workflows
// run.
func New(c client.Client, o Options) *Control {
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	return &Control{client: c, options: o}
}

// Apply makes the spec the one in force, starting the pipeline's workflow when
// it does not run. It returns when the spec is accepted; see WaitServing. A
// spec that is rejected leaves nothing changed.
func (c *Control) Apply(ctx context.Context, r workflows.ApplyRequest) (workflows.ChangeReply, error) {
	name := r.Spec.Pipeline.Name
	if err := workflows.CheckSpec(r.Spec); err != nil {
		return workflows.ChangeReply{}, err // do not start a workflow for it
	}
	start := c.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID:                       workflows.PipelineID(name),
		TaskQueue:                activities.ControlQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "pipeline " + name,
	}, workflows.TypePipeline, workflows.State{Name: name, Settings: c.options.Settings})
	var reply workflows.ChangeReply
	handle, err := c.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          completed(name, workflows.UpdateApply, r),
	})
	if err == nil {
		err = handle.Get(ctx, &reply)
	}
	return reply, explain("pipeline", name, err)
}

// Rescale plans for another rate.
func (c *Control) Rescale(ctx context.Context, pipeline string, r workflows.RescaleRequest) (workflows.ChangeReply, error) {
	return c.update(ctx, pipeline, workflows.UpdateRescale, r)
}

// Profile measures the modules of a pipeline anew, those without a profile on
// file, and plans with what comes out.
func (c *Control) Profile(ctx context.Context, pipeline, why string) (workflows.ChangeReply, error) {
	return c.update(ctx, pipeline, workflows.UpdateProfile, why)
}

// Drain stops serving a pipeline and keeps its spec; it returns when draining
// has been accepted.
func (c *Control) Drain(ctx context.Context, pipeline, why string) (workflows.ChangeReply, error) {
	return c.update(ctx, pipeline, workflows.UpdateDrain, why)
}

// Delete stops serving a pipeline and waits until its workflow has ended.
func (c *Control) Delete(ctx context.Context, pipeline, why string) error {
	if _, err := c.update(ctx, pipeline, workflows.UpdateDelete, why); err != nil {
		return err
	}
	return c.client.GetWorkflow(ctx, workflows.PipelineID(pipeline), "").Get(ctx, nil)
}

// Status tells how a pipeline is. The error is ErrNotFound when it does not
// run.
func (c *Control) Status(ctx context.Context, pipeline string) (Status, error) {
	var s Status
	err := c.query(ctx, workflows.PipelineID(pipeline), &s)
	if err == nil && s.Phase == workflows.Deleted {
		err = fmt.Errorf("pipeline %q: %w", pipeline, ErrNotFound)
	}
	return s, explain("pipeline", pipeline, err)
}

// List names the pipelines that run, sorted. It is as fresh as Temporal's
// visibility store, which may lag by seconds.
func (c *Control) List(ctx context.Context) ([]string, error) {
	return c.list(ctx, workflows.TypePipeline, workflows.PipelineID(""))
}

// list names the running workflows of a type, without the prefix of their IDs.
func (c *Control) list(ctx context.Context, kind, prefix string) ([]string, error) {
	var names []string
	var page []byte
	for {
		reply, err := c.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query:         fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", kind),
			NextPageToken: page,
		})
		if err != nil {
			return nil, fmt.Errorf("control: listing %ss: %w", kind, err)
		}
		for _, e := range reply.Executions {
			names = append(names, strings.TrimPrefix(e.Execution.WorkflowId, prefix))
		}
		if page = reply.NextPageToken; len(page) == 0 {
			slices.Sort(names)
			return names, nil
		}
	}
}

// WaitServing waits until the pipeline serves the generation or a later one,
// telling progress, which may be nil, of every change on the way. It fails
// with a *FailedError when the generation cannot be carried out.
func (c *Control) WaitServing(ctx context.Context, pipeline string, generation int, progress func(Status)) (Status, error) {
	tick := time.NewTicker(c.options.Poll)
	defer tick.Stop()
	var last string
	for {
		s, err := c.Status(ctx, pipeline)
		if err != nil {
			return s, err
		}
		if now := fmt.Sprint(s.Phase, s.Generation, s.Serving, s.Asked != nil, len(s.Decisions)); now != last && progress != nil {
			last = now
			progress(s)
		}
		if f := s.Failure; f != nil && f.Generation >= generation && !s.Pending {
			return s, &FailedError{Pipeline: pipeline, Failure: *f, Serving: s.Serving}
		}
		if s.Serving >= generation && s.Phase == workflows.Serving {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, fmt.Errorf("control: pipeline %q is still %s: %w", pipeline, s.Phase, context.Cause(ctx))
		}
	}
}

// FailedError says why a change was not carried out.
type FailedError struct {
	Pipeline string // or function
	Function bool
	Failure  workflows.Failure
	Serving  int // generation that goes on serving; 0 when none does
}

// Error is the reason and what happens next.
func (e *FailedError) Error() string {
	kind := "pipeline"
	if e.Function {
		kind = "function"
	}
	s := fmt.Sprintf("control: %s %q: %s", kind, e.Pipeline, strings.TrimSpace(e.Failure.Describe()))
	if e.Serving > 0 {
		s += fmt.Sprintf("; generation %d goes on serving", e.Serving)
	}
	return s
}

// SendMeasures tells a pipeline what its gateway saw. One every ten seconds or
// so is enough.
func (c *Control) SendMeasures(ctx context.Context, m autoscale.Measures) error {
	return explain("pipeline", m.Pipeline, c.client.SignalWorkflow(ctx, workflows.PipelineID(m.Pipeline), "", workflows.SignalMeasures, m))
}

// GatewayStarted tells every pipeline that a gateway has started and serves
// nothing yet. A gateway's role calls it once its worker runs; address is what
// executors dial, empty when it is as before.
func (c *Control) GatewayStarted(ctx context.Context, address string) error {
	names, err := c.List(ctx)
	for _, name := range names {
		sent := c.client.SignalWorkflow(ctx, workflows.PipelineID(name), "", workflows.SignalGatewayStarted, address)
		err = errors.Join(err, explain("pipeline", name, sent))
	}
	return errors.Join(err, c.functionsStarted(ctx, address))
}

// Join makes a host part of the fleet, or tells of its devices anew. The
// host's worker must be polling activities.HostQueue(name), because the fleet
// holds the host by an activity there.
func (c *Control) Join(ctx context.Context, host activities.HostInfo) (activities.FleetView, error) {
	view, err := activities.UpdateFleet(ctx, c.client, activities.FleetJoin, host)
	if err != nil {
		return view, fmt.Errorf("control: host %q could not join: %w", host.Name, err)
	}
	return view, nil
}

// Fleet tells which hosts and devices there are and who uses them; an empty
// view when no host has ever joined.
func (c *Control) Fleet(ctx context.Context) (view activities.FleetView, err error) {
	value, err := c.client.QueryWorkflow(ctx, activities.FleetID, "", activities.FleetDevices)
	if err == nil {
		err = value.Get(&view)
	}
	if errors.As(err, new(*serviceerror.NotFound)) {
		return view, nil
	}
	return view, err
}

// Devices tells how the devices of all hosts are doing, as of the hosts' last
// heartbeats; of a host that has not said so yet, only what it offers.
func (c *Control) Devices(ctx context.Context) ([]devices.Reading, error) {
	view, err := c.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	var all []devices.Reading
	for _, h := range view.Hosts {
		beat, err := c.beat(ctx, h.Name)
		if err != nil {
			return nil, err
		}
		if beat.Devices == nil {
			for _, d := range h.Devices {
				status := executors.DeviceStatus{Host: h.Name, Device: d.Name, Hardware: d.Hardware, Capacity: d.Memory}
				beat.Devices = append(beat.Devices, devices.Reading{DeviceStatus: status})
			}
		}
		all = append(all, beat.Devices...)
	}
	return all, nil
}

// beat is what a host has said last; nothing when it has said nothing.
func (c *Control) beat(ctx context.Context, host string) (beat activities.HostBeat, err error) {
	d, err := c.client.DescribeWorkflowExecution(ctx, workflows.HostID(host), "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return beat, nil
	}
	if err != nil {
		return beat, err
	}
	for _, a := range d.GetPendingActivities() {
		if said := a.GetHeartbeatDetails(); said != nil {
			// A host of another version may say something else.
			if converter.GetDefaultDataConverter().FromPayloads(said, &beat) != nil {
				beat = activities.HostBeat{}
			}
		}
	}
	return beat, nil
}

func (c *Control) update(ctx context.Context, pipeline, name string, arg any) (reply workflows.ChangeReply, err error) {
	reply, err = c.send(ctx, completed(pipeline, name, arg))
	return reply, explain("pipeline", pipeline, err)
}

// send asks for an update and waits for its answer.
func (c *Control) send(ctx context.Context, update client.UpdateWorkflowOptions) (reply workflows.ChangeReply, err error) {
	handle, err := c.client.UpdateWorkflow(ctx, update)
	if err == nil {
		err = handle.Get(ctx, &reply)
	}
	return reply, err
}

// query reads the status of a workflow into s.
func (c *Control) query(ctx context.Context, id string, s any) error {
	value, err := c.client.QueryWorkflow(ctx, id, "", workflows.QueryStatus)
	if err != nil {
		return err
	}
	return value.Get(s)
}

func completed(pipeline, name string, arg any) client.UpdateWorkflowOptions {
	return completedAt(workflows.PipelineID(pipeline), name, arg)
}

func completedAt(id, name string, arg any) client.UpdateWorkflowOptions {
	return client.UpdateWorkflowOptions{
		WorkflowID:   id,
		UpdateName:   name,
		Args:         []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}
}

// explain turns Temporal's answer into one that says what to do.
// explain names what a workflow that is not there would have served: kind is
// pipeline or function.
func explain(kind, name string, err error) error {
	if notFound(err) {
		return fmt.Errorf("%s %q: %w", kind, name, ErrNotFound)
	}
	return err
}

func notFound(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }
