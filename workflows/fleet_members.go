package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// Gateways and dispatchers in the fleet.

func memberKey(m activities.Member) string { return string(m.Kind) + "/" + m.Name }

func (f *fleet) checkEnter(_ workflow.Context, m activities.Member) error {
	switch {
	case m.Kind != activities.KindGateway && m.Kind != activities.KindDispatcher && m.Kind != activities.KindProvisioner:
		return fmt.Errorf("workflows: %q is no kind of member; it is %s, %s or %s", m.Kind, activities.KindGateway, activities.KindDispatcher, activities.KindProvisioner)
	case m.Name == "" || m.Instance == "":
		return fmt.Errorf("workflows: a %s that joins needs a name, and its process a name of its own", m.Kind)
	case m.Kind == activities.KindProvisioner && (m.Offer == nil || m.Offer.Hardware != m.Name || m.Offer.Devices < 1):
		return fmt.Errorf("workflows: provisioner %q must offer hosts with devices of that hardware", m.Name)
	case m.Kind == activities.KindProvisioner && f.Members[memberKey(m)].Instance != "" && f.Members[memberKey(m)].Instance != m.Instance:
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflows: another control role provisions %s", m.Name), activities.TypeFenced, nil)
	}
	return nil
}

// enter takes a member in. One of the same name is cancelled as replaced.
func (f *fleet) enter(ctx workflow.Context, m activities.Member) (activities.FleetView, error) {
	f.changed()
	if f.Members == nil {
		f.Members = map[string]activities.Member{}
	}
	before, known := f.Members[memberKey(m)]
	if known && before.Instance != m.Instance {
		f.leaves = append(f.leaves, before)
	}
	m.Ready = m.Kind == activities.KindDispatcher && known && before.Instance == m.Instance && before.Ready
	f.Members[memberKey(m)] = m
	f.enters = append(f.enters, m)
	switch m.Kind {
	case activities.KindGateway:
		f.changes.Members = true
		f.changes.New = append(f.changes.New, m)
	case activities.KindProvisioner:
		f.changes.Offers = true
	default:
		f.joined = true
		f.share(ctx)
	}
	return f.view(), nil
}

func (f *fleet) receiveMembersLost(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, signalMemberLost)
	for {
		var lost memberLost
		ends.Receive(ctx, &lost)
		f.memberLost(ctx, lost)
	}
}

func (f *fleet) memberLost(ctx workflow.Context, lost memberLost) {
	f.changed()
	m := lost.Member
	if f.Members[memberKey(m)].Instance != m.Instance {
		return // another has its name
	}
	if lost.Reason == cancelled { // by a person
		f.enters = append(f.enters, f.Members[memberKey(m)])
		return
	}
	delete(f.Members, memberKey(m))
	switch m.Kind {
	case activities.KindGateway:
		f.changes.Members = true
	case activities.KindProvisioner: // services that want its hosts wait for another
	default:
		f.joined = true
		f.share(ctx)
	}
}

// startMembers starts the workflow of every member that has joined, and ends those
// of members that are replaced.
func (f *fleet) startMembers(ctx workflow.Context) {
	enters, leaves := f.enters, f.leaves
	f.enters, f.leaves = nil, nil
	for _, m := range enters {
		ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            MemberID(m),
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         fmt.Sprintf("%s %s at %s", m.Kind, m.Name, m.Address),
		})
		err := workflow.ExecuteChildWorkflow(ctx, TypeMember, MemberInput{Member: m}).GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			workflow.GetLogger(ctx).Error("member workflow did not start", "member", m.Name, "error", err)
		}
	}
	for _, m := range leaves {
		if err := workflow.RequestCancelExternalWorkflow(ctx, MemberID(m), "").Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Debug("the member has gone already", "member", m.Name, "error", err)
		}
	}
}

// tellHosts sends all hosts the gateways and dispatchers that their executors attach to. A
// host that cannot be reached now receives them when it joins again.
func (f *fleet) tellHosts(ctx workflow.Context, members []activities.Member) {
	in := activities.GatewaysInput{Version: f.Version, Gateways: members}
	for _, name := range workflow.DeterministicKeys(f.Hosts) {
		f.telling++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { f.telling-- }()
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				TaskQueue:              activities.HostQueue(name),
				StartToCloseTimeout:    10 * time.Second,
				ScheduleToStartTimeout: HostPatience,
				RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
				Summary:                fmt.Sprintf("send host %s %d gateways and dispatchers", name, len(members)),
			})
			var host *activities.Host
			if err := workflow.ExecuteActivity(ctx, host.UseGateways, in).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("a host was not sent the gateways", "host", name, "error", err)
			}
		})
	}
}

// MemberInput is the input of the member workflow.
type MemberInput struct {
	Member           activities.Member
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// memberLost is the signal of a member workflow to the fleet at its end.
type memberLost struct {
	Member activities.Member
	Reason string
}

// Member keeps a gateway or a dispatcher in the fleet for as long as it heartbeats.
// Its cancellation means to the process that another has taken its name.
func Member(ctx workflow.Context, in MemberInput) error {
	m := in.Member
	var gateway *activities.GatewayActivities
	why := hold(ctx, m.Queue(), in.HeartbeatTimeout, 0, string(m.Kind)+" "+m.Name, gateway.HoldMember, m)
	if ctx.Err() != nil {
		why = cancelled
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.SignalExternalWorkflow(ctx, activities.FleetID, "", signalMemberLost, memberLost{m, why}).Get(ctx, nil)
}

// hold runs the activity that holds a member of the fleet until it leaves or is
// lost, and reports why. When its heartbeats stop, the activity is offered to it again;
// when it does not take it for the heartbeat timeout, and patience longer, it is gone. So
// is one that does not answer a check: should it go on, the answer to its next heartbeat
// ends it.
func hold(ctx workflow.Context, queue string, timeout, patience time.Duration, what string, activity, arg any) string {
	if timeout <= 0 {
		timeout = activities.DefaultHeartbeatTimeout
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    Forever,
		ScheduleToStartTimeout: timeout + patience,
		HeartbeatTimeout:       timeout,
		WaitForCancellation:    true,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 5 * time.Second},
		Summary:                "hold " + what,
	})
	why := left
	workflow.NewSelector(ctx).AddFuture(workflow.ExecuteActivity(ctx, activity, arg), func(end workflow.Future) {
		if err := end.Get(ctx, nil); err != nil {
			why = activities.Reason(err)
		}
	}).AddReceive(workflow.GetSignalChannel(ctx, signalSilent), func(silent workflow.ReceiveChannel, _ bool) {
		silent.Receive(ctx, &why)
	}).Select(ctx)
	return why
}

// What people do to workflows in Temporal's UI. A workflow that holds a host or a member and
// was cancelled or terminated is started again: should the process be gone, no worker takes
// its activity. The fleet's own goes on in another run where it is cancelled, and begins
// with its last state where it was terminated (activities.EnsureFleet).

// Why a workflow that holds a host or a member has ended: it was cancelled, or the process has
// stopped in good order.
const (
	cancelled = "cancelled"
	left      = "left"
)

// receiveUnheld receives the IDs of missing workflows from control roles.
func (f *fleet) receiveUnheld(ctx workflow.Context) {
	unheld := workflow.GetSignalChannel(ctx, activities.FleetUnheld)
	for {
		var id string
		unheld.Receive(ctx, &id)
		f.holdAgain(id)
	}
}

// holdAgain has a host or a member held again, by the ID of the workflow that did.
func (f *fleet) holdAgain(id string) {
	f.handled++
	for _, name := range workflow.DeterministicKeys(f.Hosts) {
		if HostID(name) == id {
			f.starts = append(f.starts, name)
		}
	}
	for _, key := range workflow.DeterministicKeys(f.Members) {
		if m := f.Members[key]; MemberID(m) == id {
			f.enters = append(f.enters, m)
		}
	}
}

// patchReset marks workflows that notice when somebody has reset them.
const patchReset = "resets"

// Reset reports, once for each time that somebody resets a workflow, that its state is from
// an earlier time. run keeps what was seen within a run; "" at the beginning.
func Reset(ctx workflow.Context, run *string) bool {
	if workflow.GetVersion(ctx, patchReset, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return false
	}
	now := ""
	// A reset run replays what its base has recorded, and records itself only what it decides again.
	err := workflow.MutableSideEffect(ctx, patchReset,
		func(ctx workflow.Context) any { return workflow.GetInfo(ctx).WorkflowExecution.RunID },
		func(a, b any) bool { return a == b }).Get(&now)
	before := *run
	if before == "" {
		before = workflow.GetInfo(ctx).OriginalRunID
	}
	*run = now
	return err == nil && before != "" && before != now
}

// wasReset sends the fleet's state to everybody again, and has services report what they
// hold: some has changed since the time that the fleet was reset to. Version numbers go on
// beyond all that were given.
func (f *fleet) wasReset(ctx workflow.Context) {
	if !Reset(ctx, &f.run) {
		return
	}
	now := int(workflow.Now(ctx).Unix())
	f.Version, f.Moves = max(f.Version, now), max(f.Moves, now)
	f.changes.Anew, f.changes.Members, f.owned, f.joined = true, true, true, true
	f.starts = append(f.starts, workflow.DeterministicKeys(f.Hosts)...)
	for _, key := range workflow.DeterministicKeys(f.Members) {
		f.enters = append(f.enters, f.Members[key])
	}
}
