package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// What people do to workflows in Temporal's UI. A workflow that holds a host or a member and
// was cancelled or terminated is started again: should the process be gone, nobody takes what
// it offers. The fleet's own goes on in another run where it is cancelled, and begins with what
// the last one knew where it was terminated (activities.EnsureFleet).

// cancelled is why a workflow that holds a host or a member has ended that was cancelled.
const cancelled = "cancelled"

// receiveUnheld takes what control roles say of workflows that are not there.
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

// Reset says once, of each time that somebody resets a workflow, that it knows only what it
// knew at an earlier time. Run is what it remembers of that within a run; "" at the begin.
func Reset(ctx workflow.Context, run *string) bool {
	if workflow.GetVersion(ctx, patchReset, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return false
	}
	now := ""
	// A reset run replays what its base has recorded, and records itself only what it decides anew.
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

// wasReset has everybody hear anew what the fleet knows, and services say what they hold: some
// has changed since the time that the fleet was reset to. Numbers by which later words are told
// from earlier ones go on beyond all that were given.
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
