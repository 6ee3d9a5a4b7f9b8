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

// enter takes a member in. One of the same name is told that it is replaced.
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
	case activities.KindProvisioner: // who asks for its hosts waits for another
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

// tellHosts tells all hosts which gateways and dispatchers their executors attach to. A
// fleetHost that cannot be told now learns it when it joins again.
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
				Summary:                fmt.Sprintf("tell host %s of %d gateways and dispatchers", name, len(members)),
			})
			var host *activities.Host
			if err := workflow.ExecuteActivity(ctx, host.UseGateways, in).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("a host was not told of the gateways", "host", name, "error", err)
			}
		})
	}
}
