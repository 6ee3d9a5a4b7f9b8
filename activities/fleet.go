package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Fleet sends updates to the fleet workflow on behalf of other workflows, because only a
// client can send an update and receive its reply.
type Fleet struct {
	Client client.Client

	ready sync.Once
	turn  chan struct{} // has a token of who places and reserves; see Settle
}

// Watch returns the present fleet and subscribes the service, by the ID of its workflow, to
// changes of hosts.
func (f *Fleet) Watch(ctx context.Context, service string) (FleetView, error) {
	return f.update(ctx, FleetWatch, service)
}

// Reserve sets slots aside. A fleet that has changed meanwhile fails it with
// type TypeConflict, which is not retried: look again, then place again.
func (f *Fleet) Reserve(ctx context.Context, r Reservation) (FleetView, error) {
	view, err := f.update(ctx, FleetReserve, r)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == TypeConflict {
		return view, temporal.NewNonRetryableApplicationError(app.Message(), TypeConflict, nil)
	}
	return view, err
}

// Want requests hosts, in place of what the service requested before.
func (f *Fleet) Want(ctx context.Context, r WantRequest) (FleetView, error) {
	return f.update(ctx, FleetWant, r)
}

// Pause returns after that long, which Temporal's own timers do not where it is less than a second.
func (f *Fleet) Pause(ctx context.Context, d time.Duration) error { return osutil.SleepTimer(ctx, d) }

// update starts the fleet workflow when it does not run yet.
func (f *Fleet) update(ctx context.Context, name string, arg any) (view FleetView, err error) {
	return UpdateFleet(ctx, f.Client, name, arg)
}

// UpdateFleet sends an update to the fleet workflow, starting it when it does
// not run, and returns the fleet as it is then.
func UpdateFleet(ctx context.Context, c client.Client, name string, arg any) (view FleetView, err error) {
	update := client.UpdateWorkflowOptions{
		WorkflowID:   FleetID,
		UpdateName:   name,
		Args:         []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	handle, err := c.UpdateWorkflow(ctx, update)
	if err == nil {
		err = handle.Get(ctx, &view)
	}
	if !errors.As(err, new(*serviceerror.NotFound)) {
		return view, err
	}
	start, err := startsFleet(ctx, c)
	if err != nil {
		return view, err
	}
	handle, err = c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.NewWithStartWorkflowOperation(start.options, FleetWorkflow, start.state),
		UpdateOptions:          update,
	})
	if err != nil {
		return view, err
	}
	err = handle.Get(ctx, &view)
	return view, err
}

// fleetStart is how the fleet's workflow starts.
type fleetStart struct {
	options client.StartWorkflowOptions
	state   any // nil for the first of all
}

// startsFleet has the fleet begin with its last state when somebody terminated it.
func startsFleet(ctx context.Context, c client.Client) (s fleetStart, err error) {
	s.options = client.StartWorkflowOptions{
		ID:                       FleetID,
		TaskQueue:                ControlQueue,
		WorkflowIDConflictPolicy: useExisting,
		StaticSummary:            "hosts and devices, and which pipeline uses them",
	}
	state, err := lastState(ctx, c, FleetID)
	if state != nil {
		s.state = state
	}
	return s, err
}

// EnsureFleet starts the fleet's workflow again where somebody has ended it, and has it go on
// where it is paused.
func EnsureFleet(ctx context.Context, c client.Client, namespace string) error {
	d, err := c.DescribeWorkflowExecution(ctx, FleetID, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil // nobody has joined yet
	}
	if err != nil {
		return err
	}
	if Goes(d.GetWorkflowExecutionInfo().GetStatus()) {
		return Resume(ctx, c, namespace, d)
	}
	start, err := startsFleet(ctx, c)
	if err != nil {
		return err
	}
	_, err = c.ExecuteWorkflow(ctx, start.options, FleetWorkflow, start.state)
	return err
}

// SettleInput is a deployment to be placed and reserved in one go. What a fleet has and
// others hold is filled into the request: that of a pipeline or a pool, or of a cluster.
type SettleInput struct {
	Service string
	Own     []string                  // IDs under which it holds devices that it may use
	Request *placement.Request        `json:",omitempty"`
	Cluster *placement.ClusterRequest `json:",omitempty"`
	Apart   bool                      `json:",omitempty"` // on devices that nothing else uses
	Wants   []Want                    `json:",omitempty"`
}

// Settled is where it was placed, and the fleet that it was placed on.
type Settled struct {
	Placement placement.Placement
	View      FleetView
}

// Settle places and reserves, one service after the other: of many that start at once and
// place side by side, each would find that another was faster, most of them every time.
// Another control role may still be; then it is done over.
func (f *Fleet) Settle(ctx context.Context, in SettleInput) (Settled, error) {
	defer beat(ctx, nothing)()
	f.ready.Do(func() { f.turn = make(chan struct{}, 1) })
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		out, err := f.settle(ctx, in)
		if ReasonType(err) != TypeConflict {
			return out, err
		}
	}
	return Settled{}, ctx.Err()
}

func (f *Fleet) settle(ctx context.Context, in SettleInput) (out Settled, err error) {
	if out.View, err = ViewFleet(ctx, f.Client); err != nil {
		return out, err
	}
	if in.Apart {
		out.View = out.View.Unused()
	}
	free := out.View.For(in.Own...)
	var planning Planning
	switch version := out.View.Version; {
	case in.Cluster != nil:
		r := *in.Cluster
		r.Devices, r.Reserved, r.Start = free.Devices, free.Held, version
		out.Placement, err = planning.PlaceCluster(ctx, r)
	case in.Request != nil:
		r := *in.Request
		r.Devices, r.Reserved, r.Start = free.Devices, free.Held, version
		out.Placement, err = planning.Place(ctx, r)
	default:
		err = temporal.NewNonRetryableApplicationError("activities: there is nothing to place", TypeInvalid, errors.ErrUnsupported)
	}
	if err != nil {
		return out, err
	}
	_, err = f.Reserve(ctx, Reservation{Service: in.Service, Version: out.View.Version, Slots: out.Placement.Slots, Wants: in.Wants})
	return out, err
}
