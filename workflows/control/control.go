// Package control sends commands to the workflows through a Temporal client, for the
// command line and sdk/local, which need nothing else of the workflows. Services of all
// kinds share one space of names.
//
//	c := control.New(temporalClient, control.Options{})
//	reply, err := c.Apply(ctx, workflows.ApplyRequest{Spec: spec})
//	status, err := c.WaitServing(ctx, "traffic", reply.Generation, nil)
//	fmt.Print(status.Describe())
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/workflows"
)

// Status is a service at one moment; Describe prints it.
type Status = workflows.Status

// ErrNotFound means that no such service runs.
var ErrNotFound = errors.New("nothing of that name runs; harpagon status lists what does")

// Options configures a Control.
type Options struct {
	Settings workflows.Settings // of services that Apply starts
	By       string             // the caller, for the history; empty means USER@HOST of this process
	Poll     time.Duration      // pace of WaitServing; 0 means DefaultPoll

	// Hindrance returns a reason for late answers, such as a full disk of the server. It is
	// called while an answer is late, and an error ends the wait; may be nil.
	Hindrance func() error
}

// DefaultPoll is the interval at which WaitServing polls.
const DefaultPoll = 250 * time.Millisecond

// Control sends commands and queries. It is safe for concurrent use.
type Control struct {
	client  client.Client
	options Options

	mu    sync.Mutex
	kinds map[string]scheduler.Kind // of services that were found before, by name
}

// New makes a Control over a client of the namespace in which the workflows
// run.
func New(c client.Client, o Options) *Control {
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	if o.By == "" {
		o.By = who()
	}
	return &Control{client: c, options: o, kinds: map[string]scheduler.Kind{}}
}

// who is the user and the host of this process.
func who() string {
	host, _ := os.Hostname()
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + host
}

// Apply makes the spec the one in force, starting the service's workflow when
// it does not run. It returns when the spec is accepted; see WaitServing. A
// spec that is rejected leaves nothing changed.
func (c *Control) Apply(ctx context.Context, r workflows.ApplyRequest) (reply workflows.ChangeReply, err error) {
	if err := workflows.SpecFaults(r.Spec); err != nil {
		return reply, err // do not start a workflow for it
	}
	r.By = cmp.Or(r.By, c.options.By)
	kind, name := r.Spec.Kind(), r.Spec.Name()
	switch other, err := c.find(ctx, name); {
	case err == nil && other != kind:
		return reply, fmt.Errorf("control: %s %q has the name of a %s that runs; names are unique over all kinds: delete that with harpagon down %s, or take another name", kind, name, other, name)
	case err != nil && !errors.Is(err, ErrNotFound):
		return reply, err
	}
	id := workflows.ServiceID(kind, name)
	err = c.patiently(ctx, func() error { // the same spec again changes nothing
		start := c.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID:                       id,
			TaskQueue:                activities.ControlQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			StaticSummary:            string(kind) + " " + name,
		}, workflows.TypeService, workflows.State{Kind: kind, Name: name, Settings: c.options.Settings})
		handle, err := c.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: start,
			UpdateOptions:          completed(id, workflows.UpdateApply, r),
		})
		if err == nil {
			err = handle.Get(ctx, &reply)
		}
		return err
	})
	return reply, plain(err)
}

// Rescale plans a pipeline for another rate.
func (c *Control) Rescale(ctx context.Context, service string, r workflows.RescaleRequest) (workflows.ChangeReply, error) {
	return c.update(ctx, service, workflows.UpdateRescale, r)
}

// Rollback goes back to a declaration that served before.
func (c *Control) Rollback(ctx context.Context, service string, r workflows.RollbackRequest) (workflows.ChangeReply, error) {
	r.By = cmp.Or(r.By, c.options.By)
	return c.update(ctx, service, workflows.UpdateRollback, r)
}

// Profile measures the modules of a pipeline again, those without a profile on
// file, and plans with what comes out.
func (c *Control) Profile(ctx context.Context, service, why string) (workflows.ChangeReply, error) {
	return c.update(ctx, service, workflows.UpdateProfile, why)
}

// Drain stops serving a service and keeps its spec; it returns when draining
// has been accepted.
func (c *Control) Drain(ctx context.Context, service, why string) (workflows.ChangeReply, error) {
	return c.update(ctx, service, workflows.UpdateDrain, why)
}

// Delete stops serving a service, waits until its workflow has ended and returns its kind.
func (c *Control) Delete(ctx context.Context, service, why string) (scheduler.Kind, error) {
	kind, err := c.find(ctx, service)
	if err != nil {
		return kind, err
	}
	if _, err := c.update(ctx, service, workflows.UpdateDelete, why); err != nil {
		return kind, err
	}
	defer c.forget(service)
	err = c.client.GetWorkflow(ctx, workflows.ServiceID(kind, service), "").Get(ctx, nil)
	if temporal.IsCanceledError(err) { // by another caller, to the same end
		err = nil
	}
	return kind, err
}

// Status reports how a service is. The error is ErrNotFound when it does not run.
func (c *Control) Status(ctx context.Context, service string) (s Status, err error) {
	err = c.with(ctx, service, func(id string) error {
		value, err := c.client.QueryWorkflow(ctx, id, "", workflows.QueryStatus)
		if err == nil {
			err = value.Get(&s)
		}
		if err == nil && s.Phase == workflows.Deleted {
			err = serviceerror.NewNotFound("it was deleted")
		}
		return err
	})
	return s, err
}

// List names the services that run, or that somebody has ended and the fleet counts on,
// sorted. It is as fresh as Temporal's visibility store, which may lag by seconds.
func (c *Control) List(ctx context.Context) ([]string, error) {
	all, err := c.list(ctx, fmt.Sprintf("WorkflowType = '%s'", workflows.TypeService))
	if err != nil {
		return nil, fmt.Errorf("control: listing services: %w", err)
	}
	var names []string
	for _, e := range all {
		kind, name, _ := strings.Cut(e.Execution.WorkflowId, "/")
		c.remember(name, scheduler.Kind(kind))
		names = append(names, name)
	}
	view, err := c.Fleet(ctx)
	if err != nil {
		return nil, fmt.Errorf("control: listing services: %w", err)
	}
	for id, r := range counted(view) {
		if _, name, _ := strings.Cut(id, "/"); r == served && !slices.Contains(names, name) {
			switch _, err := c.find(ctx, name); {
			case err == nil:
				names = append(names, name)
			case !errors.Is(err, ErrNotFound):
				return nil, err
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// list finds the running workflows that a condition holds for.
func (c *Control) list(ctx context.Context, condition string) (all []*workflowpb.WorkflowExecutionInfo, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: condition + " AND ExecutionStatus = 'Running'"}
	for {
		var reply *workflowservice.ListWorkflowExecutionsResponse
		err := c.patiently(ctx, func() (err error) {
			reply, err = c.client.ListWorkflow(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Executions...)
		if request.NextPageToken = reply.NextPageToken; len(request.NextPageToken) == 0 {
			return all, nil
		}
	}
}

// Statuses are those of the services that are named, or of all that run, by name.
func (c *Control) Statuses(ctx context.Context, names ...string) (all []Status, err error) {
	if len(names) == 0 {
		if names, err = c.List(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		s, err := c.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// WaitServing waits until the service serves the generation or a later one, or with 0 any,
// also while another is searched, and does not wait for one that is drained. It calls
// progress, which may be nil, with every change on the way. It fails with a *FailedError
// when the generation cannot be carried out, for other reasons than that hosts are still to
// be made. Answers of a busy server may be late; after a minute without any it is given up.
func (c *Control) WaitServing(ctx context.Context, service string, generation int, progress func(Status)) (s Status, _ error) {
	tick := time.NewTicker(c.options.Poll)
	defer tick.Stop()
	var last string
	looked := time.Now()
	for {
		var seen Status
		err := c.patiently(ctx, func() (err error) {
			seen, err = c.Status(ctx, service)
			return err
		})
		switch {
		case err == nil:
			s = seen
		case ctx.Err() == nil || s.Phase == "":
			return seen, err
		}
		if now := fmt.Sprint(s.Phase, s.Generation, s.Serving, s.Requested != nil, len(s.Decisions), s.Failure != nil); now != last && progress != nil {
			last = now
			progress(s)
		}
		if f := s.Failure; f != nil && f.Generation >= generation && (generation > 0 || s.Serving == 0) && !s.Pending && f.Type != activities.TypeAwaits {
			return s, &FailedError{Kind: s.Kind, Service: service, Failure: *f, Serving: s.Serving}
		}
		searched := s.Serving > 0 && (s.Phase == workflows.Planning || s.Phase == workflows.Profiling)
		if s.Serving >= generation && s.Phase == workflows.Serving || generation == 0 && (searched || s.Phase == workflows.Drained) {
			return s, nil
		}
		if time.Since(looked) > time.Second { // it writes to the disk
			looked = time.Now()
			if err := c.hindrance(); err != nil {
				return s, fmt.Errorf("control: %s %q is still %s: %w", s.Kind, service, s.Phase, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			why := ""
			if s.Failure != nil {
				why = ", because " + strings.TrimSpace(s.Failure.Describe())
			}
			return s, fmt.Errorf("control: %s %q is still %s%s: %w", s.Kind, service, s.Phase, why, context.Cause(ctx))
		}
	}
}

// FailedError states why a change was not carried out.
type FailedError struct {
	Kind    scheduler.Kind
	Service string
	Failure workflows.Failure
	Serving int  // generation that goes on serving; 0 when none does
	Ended   bool // the program that was to carry it out ends with this error
}

// Error is the reason and what happens next.
func (e *FailedError) Error() string {
	if e.Ended {
		return fmt.Sprintf("control: %s %q: generation %d could not be carried out: %s; the next start tries it again", e.Kind, e.Service, e.Failure.Generation, e.Failure.Reason)
	}
	s := fmt.Sprintf("control: %s %q: %s", e.Kind, e.Service, strings.TrimSpace(e.Failure.Describe()))
	if e.Serving > 0 {
		s += fmt.Sprintf("; generation %d goes on serving", e.Serving)
	}
	return s
}

// Unwrap is wire.ErrInfeasible where no plan keeps the objective, or none that may serve; else nil.
func (e *FailedError) Unwrap() error {
	if e.Failure.Type == activities.TypeInfeasible {
		return wire.ErrInfeasible
	}
	return nil
}

// SendMissing reports to a service which of its executors are not attached to a gateway.
func (c *Control) SendMissing(ctx context.Context, service string, m workflows.Missing) error {
	return c.with(ctx, service, func(id string) error {
		return c.client.SignalWorkflow(ctx, id, "", workflows.SignalMissing, m)
	})
}

// SendMeasures sends a service the measures of a gateway. One every ten seconds or so is
// enough.
func (c *Control) SendMeasures(ctx context.Context, m autoscale.Measures) error {
	return c.with(ctx, m.Pipeline, func(id string) error {
		return c.client.SignalWorkflow(ctx, id, "", workflows.SignalMeasures, m)
	})
}

// Enter makes a gateway or a dispatcher part of the fleet. Its process must be polling
// the member's queue, because the fleet holds it by an activity there. Services are
// notified of a gateway, and install what they serve.
func (c *Control) Enter(ctx context.Context, m activities.Member) (activities.FleetView, error) {
	view, err := c.patientFleet(ctx, activities.FleetEnter, m)
	if err != nil {
		return view, fmt.Errorf("control: %s %q could not join: %w", m.Kind, m.Name, err)
	}
	return view, nil
}

// patientFleet sends the fleet an update that may be sent twice.
func (c *Control) patientFleet(ctx context.Context, name string, arg any) (view activities.FleetView, err error) {
	err = c.patiently(ctx, func() error {
		view, err = activities.UpdateFleet(ctx, c.client, name, arg)
		return err
	})
	return view, err
}

// Own claims services whose owners are gone, or reports that a dispatcher is ready for its
// share.
func (c *Control) Own(ctx context.Context, claim activities.OwnClaim) (activities.FleetView, error) {
	return activities.UpdateFleet(ctx, c.client, activities.FleetOwn, claim)
}

// Join makes a host part of the fleet, or updates its devices. The host's worker must be
// polling activities.HostQueue(name), because the fleet holds the host by an activity
// there.
func (c *Control) Join(ctx context.Context, host activities.HostInfo) (activities.FleetView, error) {
	view, err := c.patientFleet(ctx, activities.FleetJoin, host)
	if err != nil {
		return view, fmt.Errorf("control: host %q could not join: %w", host.Name, err)
	}
	return view, nil
}

// Leave reports that a host is about to go, so that services move what they run there.
func (c *Control) Leave(ctx context.Context, host string) (activities.FleetView, error) {
	return activities.UpdateFleet(ctx, c.client, activities.FleetLeave, host)
}

// Doubt reports that no executor of a host can be reached any more, so that the fleet
// checks whether the host is there.
func (c *Control) Doubt(ctx context.Context, host string) error {
	return c.client.SignalWorkflow(ctx, activities.FleetID, "", activities.FleetDoubt, host)
}

// Fleet reports which hosts and devices there are and who uses them; an empty
// view when no host has ever joined.
func (c *Control) Fleet(ctx context.Context) (activities.FleetView, error) {
	return activities.ViewFleet(ctx, c.client)
}

// Provisioners returns the state of provisioners, as of their last heartbeats; of one
// without a heartbeat yet, what it could make.
func (c *Control) Provisioners(ctx context.Context, view activities.FleetView) (all []autoscale.HostsStatus, err error) {
	for _, m := range activities.OfKind(view.Members, activities.KindProvisioner) {
		var beat activities.ProvisionerBeat
		if err := c.said(ctx, workflows.MemberID(m), &beat); err != nil {
			return nil, err
		}
		if beat.Status.Hardware == "" {
			beat.Status = autoscale.HostsStatus{Hardware: m.Name, Max: m.Offer.Max, Devices: m.Offer.Devices, Hosts: []autoscale.HostStatus{}}
		}
		all = append(all, beat.Status)
	}
	return all, nil
}

// Devices returns the state of the devices of all hosts, as of the hosts' last heartbeats;
// of a host without a heartbeat yet, only what it offers.
func (c *Control) Devices(ctx context.Context) ([]devices.Reading, error) {
	view, err := c.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	var all []devices.Reading
	for _, h := range view.Hosts {
		var beat activities.HostBeat
		if err := c.said(ctx, workflows.HostID(h.Name), &beat); err != nil {
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

// said decodes the last heartbeat of a workflow's activity into beat, which stays as it is
// without a heartbeat, or with one of an incompatible version.
func (c *Control) said(ctx context.Context, id string, beat any) error {
	d, err := c.client.DescribeWorkflowExecution(ctx, id, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range d.GetPendingActivities() {
		if said := a.GetHeartbeatDetails(); said != nil {
			_ = converter.GetDefaultDataConverter().FromPayloads(said, beat)
		}
	}
	return nil
}

func (c *Control) update(ctx context.Context, service, name string, arg any) (reply workflows.ChangeReply, err error) {
	err = c.with(ctx, service, func(id string) error {
		handle, err := c.client.UpdateWorkflow(ctx, completed(id, name, arg))
		if err == nil {
			err = handle.Get(ctx, &reply)
		}
		return plain(err)
	})
	return reply, err
}

// refusal is what a workflow has refused, in its own words.
type refusal struct {
	error
	words string
}

func (r refusal) Error() string { return r.words }
func (r refusal) Unwrap() error { return r.error }

// plain leaves out what Temporal adds to the text of a workflow's error, its type and whether
// it may be tried again, and what the error wraps, which its text has already.
func plain(err error) error {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return refusal{err, app.Message()}
	}
	return err
}

func completed(id, name string, arg any) client.UpdateWorkflowOptions {
	return client.UpdateWorkflowOptions{
		WorkflowID:   id,
		UpdateName:   name,
		Args:         []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}
}
