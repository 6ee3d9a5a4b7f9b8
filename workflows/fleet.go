package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// FleetState is the whole state of the fleet workflow. Nil stands for the start.
type FleetState struct {
	Version  int
	Hosts    map[string]*PresentHost
	Reserved map[string][]placement.Slot // by the ID of the service
	Watching map[string]bool             // services to notify of changes, by ID

	// Touched is the version at which what is reserved of a device has changed last, by
	// fleetHost and device; those of hosts that are gone are forgotten.
	Touched map[string]map[string]int `json:",omitempty"`

	Members map[string]activities.Member `json:",omitempty"` // gateways and dispatchers, by kind and name
	Owners  map[string]activities.Owner  `json:",omitempty"` // dispatchers by the service that they decide for
	Epoch   uint64                       `json:",omitempty"` // the highest of an owner
	Moves   int                          `json:",omitempty"` // counts the changes of owners

	Wants map[string][]activities.Want `json:",omitempty"` // hosts that services want, by ID

	ContinueAfter int // as in Settings
}

// PresentHost is a host that is present.
type PresentHost struct {
	Info        activities.HostInfo
	Incarnation int // counts the joins, so that the end of an older one is known as such
}

// hostLost is the signal of a host workflow to the fleet at its end.
type hostLost struct {
	Name        string
	Incarnation int
	Reason      string
}

// fleet drives FleetState.
type fleet struct {
	FleetState
	changes FleetChange          // not sent to services yet
	starts  []string             // hosts whose workflow is to be started
	enters  []activities.Member  // members whose workflow is to be started
	leaves  []activities.Member  // members whose name another has taken
	owned   bool                 // owners have changed and have not been notified
	joined  bool                 // dispatchers have come or gone and gateways have not been notified
	asked   map[string]time.Time // until when hosts that were doubted are not checked again
	telling int                  // calls to members under way
	run     string               // see Reset
	handled int
}

// Fleet keeps which hosts and devices exist and which service has reserved them.
func Fleet(ctx workflow.Context, state *FleetState) error {
	f := &fleet{asked: map[string]time.Time{}}
	if state != nil {
		f.FleetState = *state
	}
	f.init()
	if err := f.setHandlers(ctx); err != nil {
		return err
	}
	asked := ctx // to end, by a person: another run goes on then, since what serves needs the fleet
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, f.receiveLost)
	workflow.Go(ctx, f.receiveMembersLost)
	workflow.Go(ctx, f.receiveDoubts)
	workflow.Go(ctx, f.receiveUnheld)
	for {
		f.show(ctx)
		err := workflow.Await(ctx, func() bool {
			f.wasReset(ctx) // no event reports that
			return f.hasWork() || f.historyFull(ctx) || asked.Err() != nil
		})
		if err != nil {
			return err
		}
		if f.hasWork() {
			f.startHosts(ctx)
			f.startMembers(ctx)
			f.notify(ctx)
			continue
		}
		if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && f.telling == 0 }); err != nil {
			return err
		}
		f.receivePending(ctx)
		if !f.hasWork() {
			return workflow.NewContinueAsNewError(ctx, TypeFleet, &f.FleetState)
		}
	}
}

func (f *fleet) init() {
	if f.Hosts == nil {
		f.Hosts = map[string]*PresentHost{}
	}
	if f.Reserved == nil {
		f.Reserved = map[string][]placement.Slot{}
	}
	if f.Watching == nil {
		f.Watching = map[string]bool{}
	}
	if f.Touched == nil { // since when devices have been reserved is unknown
		f.Touched = map[string]map[string]int{}
		for _, service := range workflow.DeterministicKeys(f.Reserved) {
			f.touch(f.Reserved[service])
		}
	}
}

// touch notes that what is reserved of the slots' devices is another from this version on.
func (f *fleet) touch(slots []placement.Slot) {
	for _, s := range slots {
		if f.Hosts[s.Host] == nil {
			continue
		}
		if f.Touched[s.Host] == nil {
			f.Touched[s.Host] = map[string]int{}
		}
		f.Touched[s.Host][s.Device] = f.Version
	}
}

func (f *fleet) hasWork() bool {
	return len(f.starts)+len(f.enters)+len(f.leaves) > 0 || f.changes.ofHosts() || f.changes.Members || f.owned || f.joined
}

func (f *fleet) historyFull(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || f.ContinueAfter > 0 && f.handled >= f.ContinueAfter
}

func (f *fleet) setHandlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, activities.FleetDevices, func() (activities.FleetView, error) { return f.view(), nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, activities.QueryState, func() (*FleetState, error) { return &f.FleetState, nil }); err != nil {
		return err
	}
	for _, u := range []struct {
		name               string
		handler, validator any
	}{
		{activities.FleetJoin, f.join, f.checkJoin},
		{activities.FleetEnter, f.enter, f.checkEnter},
		{activities.FleetLeave, f.leave, nil},
		{activities.FleetOwn, f.own, f.checkOwn},
		{activities.FleetReserve, f.reserve, f.checkReserve},
		{activities.FleetWant, f.want, nil},
		{activities.FleetWatch, f.watch, nil},
	} {
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, u.handler, workflow.UpdateHandlerOptions{Validator: u.validator}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) view() activities.FleetView {
	v := activities.FleetView{Version: f.Version, Moves: f.Moves, Reserved: f.Reserved, Services: workflow.DeterministicKeys(f.Watching), Wants: f.Wants}
	for _, key := range workflow.DeterministicKeys(f.Members) {
		v.Members = append(v.Members, f.Members[key])
	}
	for _, service := range workflow.DeterministicKeys(f.Owners) {
		v.Owners = append(v.Owners, f.Owners[service])
	}
	for _, name := range workflow.DeterministicKeys(f.Hosts) {
		v.Hosts = append(v.Hosts, f.Hosts[name].Info)
	}
	return v
}

func (f *fleet) checkJoin(_ workflow.Context, info activities.HostInfo) error {
	if info.Name == "" {
		return fmt.Errorf("workflows: a host that joins needs a name")
	}
	for _, d := range info.Devices {
		if d.Host != info.Name || d.Hardware == "" || d.Name == "" {
			return fmt.Errorf("workflows: device %q of host %q must name its host and its hardware", d.Name, info.Name)
		}
	}
	return nil
}

func (f *fleet) join(_ workflow.Context, info activities.HostInfo) (activities.FleetView, error) {
	h := f.Hosts[info.Name]
	if h == nil {
		h = &PresentHost{}
		f.Hosts[info.Name] = h
		f.came(info)
	}
	if before := h.Info.Instance; before != "" && before != info.Instance {
		f.changes.Restarted = append(f.changes.Restarted, info.Name)
	}
	h.Info = info
	h.Incarnation = f.changed()
	f.changes.Joined = append(f.changes.Joined, info.Name)
	f.starts = append(f.starts, info.Name)
	return f.view(), nil
}

// leave notes that a host is about to go: nothing is placed there any more, and services
// that run something there are notified to move it.
func (f *fleet) leave(_ workflow.Context, name string) (activities.FleetView, error) {
	if h := f.Hosts[name]; h != nil && !h.Info.Leaving {
		h.Info.Leaving = true
		f.changed()
		f.changes.Leaving = append(f.changes.Leaving, name)
	}
	return f.view(), nil
}

func (f *fleet) remove(name string) {
	if f.Hosts[name] == nil {
		return
	}
	delete(f.Hosts, name)
	delete(f.Touched, name)
	f.changed()
	f.changes.Lost = append(f.changes.Lost, name)
}

func (f *fleet) changed() int {
	f.handled++
	f.Version++
	return f.Version
}

// checkReserve refuses slots that were chosen before one of their devices changed: what
// fits there depends on nothing else, so changes elsewhere do not matter.
func (f *fleet) checkReserve(_ workflow.Context, r activities.Reservation) error {
	if r.Version == 0 {
		return nil
	}
	for _, s := range r.Slots {
		h := f.Hosts[s.Host]
		switch {
		case h == nil || h.Info.Leaving || h.Incarnation > r.Version:
			return conflict("host %s has left, or joined again, since version %d of the fleet", s.Host, r.Version)
		case f.Touched[s.Host][s.Device] > r.Version:
			return conflict("another service has reserved of device %s of host %s since version %d of the fleet", s.Device, s.Host, r.Version)
		}
	}
	return nil
}

func conflict(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError("workflows: "+fmt.Sprintf(format, args...)+"; place again", activities.TypeConflict, nil)
}

func (f *fleet) reserve(ctx workflow.Context, r activities.Reservation) (activities.FleetView, error) {
	f.changed()
	f.touch(f.Reserved[r.Service])
	f.touch(r.Slots)
	if len(r.Slots) == 0 {
		delete(f.Reserved, r.Service)
	} else {
		f.Reserved[r.Service] = r.Slots
	}
	f.ask(r.Service, r.Wants)
	if r.Forget {
		delete(f.Watching, r.Service)
		f.share(ctx)
	}
	return f.view(), nil
}

func (f *fleet) watch(ctx workflow.Context, service string) (activities.FleetView, error) {
	f.handled++
	f.Watching[service] = true
	f.share(ctx)
	return f.view(), nil
}

// receiveLost receives the signals of host workflows at their end.
func (f *fleet) receiveLost(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, signalHostLost)
	for {
		var lost hostLost
		ends.Receive(ctx, &lost)
		f.lost(lost)
	}
}

// receivePending takes what has arrived and was not taken yet.
func (f *fleet) receivePending(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, signalHostLost)
	for lost := (hostLost{}); ends.ReceiveAsync(&lost); lost = (hostLost{}) {
		f.lost(lost)
	}
	members := workflow.GetSignalChannel(ctx, signalMemberLost)
	for lost := (memberLost{}); members.ReceiveAsync(&lost); lost = (memberLost{}) {
		f.memberLost(ctx, lost)
	}
	doubts := workflow.GetSignalChannel(ctx, activities.FleetDoubt)
	for host := ""; doubts.ReceiveAsync(&host); host = "" {
		f.doubt(ctx, host)
	}
	unheld := workflow.GetSignalChannel(ctx, activities.FleetUnheld)
	for id := ""; unheld.ReceiveAsync(&id); id = "" {
		f.holdAgain(id)
	}
}

func (f *fleet) lost(l hostLost) {
	f.handled++
	h := f.Hosts[l.Name]
	switch {
	case h == nil:
	case h.Incarnation > l.Incarnation, l.Reason == cancelled: // it has joined again meanwhile, or is there still
		f.starts = append(f.starts, l.Name)
	default:
		f.remove(l.Name)
		if l.Reason == left {
			f.changes.Stopped = append(f.changes.Stopped, l.Name)
		}
	}
}

// startHosts starts the workflow of every host that has joined. One that runs
// still is fine: at its end the fleet starts it again.
func (f *fleet) startHosts(ctx workflow.Context) {
	names := f.starts
	f.starts = nil
	for _, name := range names {
		h := f.Hosts[name]
		if h == nil {
			continue
		}
		in := HostInput{Info: h.Info, Incarnation: h.Incarnation}
		ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            HostID(name),
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         fmt.Sprintf("host %s, %d devices", name, len(h.Info.Devices)),
		})
		err := workflow.ExecuteChildWorkflow(ctx, TypeHost, in).GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			workflow.GetLogger(ctx).Error("host workflow did not start", "host", name, "error", err)
		}
	}
}

// notify passes the changes on to the services.
func (f *fleet) notify(ctx workflow.Context) {
	changes := f.changes
	f.changes = FleetChange{}
	owned, joined := f.owned, f.joined
	f.owned, f.joined = false, false
	if owned {
		f.tellDispatchers(ctx)
	}
	if joined {
		f.tellGateways(ctx)
	}
	if changes.Members || joined {
		f.tellHosts(ctx, f.view().Attached())
	}
	f.tellLeaving(ctx, changes.Leaving)
	if !changes.ofHosts() && !changes.Members {
		return
	}
	if changes.Members {
		changes.Gateways = f.view().Gateways()
	}
	for _, service := range workflow.DeterministicKeys(f.Watching) {
		if _, tried := rollout.Of(service); tried {
			continue // its service is notified
		}
		if err := workflow.SignalExternalWorkflow(ctx, service, "", SignalFleetChanged, changes).Get(ctx, nil); err != nil {
			delete(f.Watching, service) // it runs no more
			f.ask(service, nil)
		}
	}
}

func (f *fleet) show(ctx workflow.Context) {
	b := new(markdownTable)
	b.Row("host", "device", "hardware", "used", "by")
	b.Row("---", "---", "---", "---:", "---")
	for _, h := range f.view().Hosts {
		devices := slices.Clone(h.Devices)
		slices.SortFunc(devices, func(a, b placement.Device) int { return cmp.Compare(a.Name, b.Name) })
		for _, d := range devices {
			share, by := f.use(d)
			name := h.Name
			if h.Leaving {
				name += " (leaving)"
			}
			b.Row(name, d.Name, d.Hardware, fmt.Sprintf("%.0f %%", 100*share), by)
		}
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

func (f *fleet) use(d placement.Device) (share float64, by string) {
	for _, service := range workflow.DeterministicKeys(f.Reserved) {
		for _, s := range f.Reserved[service] {
			if s.Host != d.Host || s.Device != d.Name {
				continue
			}
			share += s.Share
			if by != "" {
				by += ", "
			}
			by += s.Pipeline + "/" + s.Module
		}
	}
	return share, by
}

// Workflow types.
const (
	TypeFleet  = activities.FleetWorkflow
	TypeHost   = "host"
	TypeMember = "member"
)

// SignalFleetChanged sends a FleetChange to a service that watches the fleet.
const SignalFleetChanged = "fleet-changed"

const (
	signalHostLost   = "host-lost"   // to the fleet: hostLost
	signalMemberLost = "member-lost" // to the fleet: memberLost
	signalSilent     = "silent"      // to a host that is lost: why
)

const (
	// Forever is the bound of what runs for as long as it is wanted: an activity needs some.
	Forever = 10 * 365 * 24 * time.Hour

	// HostPatience is how long work may wait for its host to take it before
	// the host counts as gone.
	HostPatience = 30 * time.Second

	// ReturnTime is how long members of the fleet may take to poll for work again after the
	// server was away: their clients wait up to ten seconds between two attempts.
	ReturnTime = 15 * time.Second
)

// FleetChange is the hosts that came and went, and the present gateways where these have
// changed.
type FleetChange struct {
	Joined  []string
	Lost    []string
	Stopped []string `json:",omitempty"` // those of Lost that somebody has stopped
	Leaving []string `json:",omitempty"` // that are about to go

	Restarted []string `json:",omitempty"` // those of Joined whose process is another than before

	Members  bool                `json:",omitempty"` // the gateways have changed
	Gateways []activities.Member `json:",omitempty"` // all that are present
	New      []activities.Member `json:",omitempty"` // those of them that have just joined

	Offers bool `json:",omitempty"` // hosts can be had that could not before

	Anew bool `json:",omitempty"` // the fleet may have lost what the service holds: it is to reserve it again
}

func (c *FleetChange) ofHosts() bool {
	return len(c.Joined)+len(c.Lost)+len(c.Leaving) > 0 || c.Offers || c.Anew
}

// HostID is the workflow ID of a host.
func HostID(name string) string { return "host/" + name }

// MemberID is the workflow ID of a gateway or a dispatcher.
func MemberID(m activities.Member) string { return string(m.Kind) + "/" + m.Name + "/" + m.Instance }

// markdownTable is a table in Markdown; its zero value is empty.
type markdownTable struct{ strings.Builder }

// Row adds a row; the second one separates the head, as "---" in every cell.
func (t *markdownTable) Row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
