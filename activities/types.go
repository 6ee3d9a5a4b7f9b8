package activities

import (
	"maps"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// HostInfo is a host that joins the fleet.
type HostInfo struct {
	Name     string
	Devices  []placement.Device
	Leaving  bool   `json:",omitempty"` // it is about to go: nothing is to be placed there
	Instance string `json:",omitempty"` // of the process, which another one of the same name does not share
}

// HostBeat is the details of a host's heartbeat in HoldHost.
type HostBeat struct {
	Present string // for how long
	Devices []devices.Reading
}

// Member is a gateway or a dispatcher that joins the fleet.
type Member struct {
	Kind     Kind
	Name     string // of which there is one at a time: who joins last has it
	Instance string // another for every process, so that no two share a task queue
	Address  string // for requests
	Attach   string `json:",omitempty"` // that executors dial
	Ready    bool   `json:",omitempty"` // of a dispatcher: gateways and executors have had the time to come to it
	Offer    *Offer `json:",omitempty"` // of a provisioner
}

// Offer is what a provisioner can make: hosts of one kind of hardware.
type Offer struct {
	Hardware string
	Devices  int // of a host
	Max      int // hosts
}

// Want is how many hosts of a kind a service needs beyond those of the fleet.
type Want struct {
	Hardware string
	Hosts    int
}

// WantRequest replaces the wants of a service.
type WantRequest struct {
	Service string // ID of its workflow
	Version int    // of the fleet by which that was found: hosts that have joined since are taken off
	Wants   []Want
}

// Queue is the task queue of the member's process.
func (m Member) Queue() string { return "harpagon-" + string(m.Kind) + "-" + m.Name + "-" + m.Instance }

// FleetView is the fleet at one moment, as the workflow `fleet` returns it.
type FleetView struct {
	Version  int                         // grows with every change of hosts and reservations
	Hosts    []HostInfo                  // present, sorted by name
	Reserved map[string][]placement.Slot // by the ID of the service's workflow
	Members  []Member                    `json:",omitempty"` // present, sorted by kind and name
	Owners   []Owner                     `json:",omitempty"` // sorted by service
	Moves    int                         `json:",omitempty"` // grows with every change of owners
	Services []string                    `json:",omitempty"` // that are notified of changes: IDs of their workflows, sorted
	Wants    map[string][]Want           `json:",omitempty"` // by the ID of the service's workflow
}

// Offers is what provisioners could make beside what they have, sorted by hardware.
func (v FleetView) Offers() (all []scheduler.Offer) {
	for _, m := range OfKind(v.Members, KindProvisioner) {
		left := m.Offer.Max
		for _, h := range v.Hosts {
			if _, ok := autoscale.HostNumber(m.Offer.Hardware, h.Name); ok {
				left--
			}
		}
		if left > 0 {
			all = append(all, scheduler.Offer{Hardware: m.Offer.Hardware, Devices: m.Offer.Devices, Hosts: left})
		}
	}
	return all
}

// Provisioned reports whether the host is one that a provisioner may end.
func (v FleetView) Provisioned(host string) bool {
	return slices.ContainsFunc(OfKind(v.Members, KindProvisioner), func(m Member) bool {
		_, ok := autoscale.HostNumber(m.Offer.Hardware, host)
		return ok
	})
}

// Wanted is how many hosts of a kind services want.
func (v FleetView) Wanted(hardware string) (n int) {
	for _, wants := range v.Wants {
		for _, w := range wants {
			if w.Hardware == hardware {
				n += w.Hosts
			}
		}
	}
	return n
}

// DevicesWanted is how many devices of each provisioned kind services hold and want.
func (v FleetView) DevicesWanted() map[string]int {
	all := map[string]int{}
	for _, m := range OfKind(v.Members, KindProvisioner) {
		all[m.Offer.Hardware] = v.Wanted(m.Offer.Hardware) * m.Offer.Devices
	}
	held := map[placement.Device]bool{}
	for _, slots := range v.Reserved {
		for i := range slots {
			d := placement.Device{Host: slots[i].Host, Name: slots[i].Device, Hardware: slots[i].Hardware}
			if _, made := all[d.Hardware]; made && !held[d] {
				held[d] = true
				all[d.Hardware]++
			}
		}
	}
	return all
}

// Gateways are the gateways that are present, sorted by name.
func (v FleetView) Gateways() []Member { return OfKind(v.Members, KindGateway) }

// OfKind are the members of one kind.
func OfKind(all []Member, kind Kind) (some []Member) {
	for _, m := range all {
		if m.Kind == kind {
			some = append(some, m)
		}
	}
	return some
}

// Taken reports whether another process is in the fleet under a member's name.
func (v FleetView) Taken(m Member) bool {
	return slices.ContainsFunc(v.Members, func(other Member) bool {
		return other.Kind == m.Kind && other.Name == m.Name && other.Instance != m.Instance
	})
}

// Attached are the gateways and the dispatchers, to which executors attach.
func (v FleetView) Attached() []Member { return append(v.Gateways(), v.Dispatchers()...) }

// attachAddresses are where executors reach gateways and dispatchers.
func attachAddresses(members []Member) (all []string) {
	for _, g := range members {
		if g.Attach != "" {
			all = append(all, g.Attach)
		}
	}
	return all
}

// Devices lists the devices of all hosts that are present and stay; never nil.
func (v FleetView) Devices() []placement.Device {
	all := []placement.Device{}
	for _, h := range v.Hosts {
		if !h.Leaving {
			all = append(all, h.Devices...)
		}
	}
	return all
}

// Leaving are the names of the hosts that are about to go.
func (v FleetView) Leaving() (names []string) {
	for _, h := range v.Hosts {
		if h.Leaving {
			names = append(names, h.Name)
		}
	}
	return names
}

// Nearest are the hosts by name, those that are about to leave last.
func (v FleetView) Nearest() (names []string) {
	for _, leaving := range []bool{false, true} {
		for _, h := range v.Hosts {
			if h.Leaving == leaving {
				names = append(names, h.Name)
			}
		}
	}
	return names
}

// Uses reports whether a service has reserved a device of the host.
func (v FleetView) Uses(host string) bool {
	for _, slots := range v.Reserved {
		if slices.ContainsFunc(slots, func(s placement.Slot) bool { return s.Host == host }) {
			return true
		}
	}
	return false
}

// Unused is the fleet without the devices of which anything is reserved.
func (v FleetView) Unused() FleetView {
	used := map[[2]string]bool{}
	for _, service := range slices.Sorted(maps.Keys(v.Reserved)) {
		for _, s := range v.Reserved[service] {
			used[[2]string{s.Host, s.Device}] = true
		}
	}
	hosts := v.Hosts
	v.Hosts = nil
	for _, h := range hosts {
		h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(d placement.Device) bool { return used[[2]string{d.Host, d.Name}] })
		v.Hosts = append(v.Hosts, h)
	}
	return v
}

// For is the fleet as it is for services that are planned together: what others
// have reserved of the devices is held.
func (v FleetView) For(services ...string) scheduler.Fleet {
	f := scheduler.Fleet{Devices: v.Devices()}
	there := map[[2]string]bool{}
	for _, d := range f.Devices {
		there[[2]string{d.Host, d.Name}] = true
	}
	for _, other := range slices.Sorted(maps.Keys(v.Reserved)) {
		if slices.Contains(services, other) {
			continue
		}
		for _, s := range v.Reserved[other] {
			if there[[2]string{s.Host, s.Device}] {
				f.Held = append(f.Held, s)
			}
		}
	}
	return f
}

// Reservation reserves slots of the fleet for a service, replacing what it held before. It
// fails with type TypeConflict when one of their devices is no longer as it was at Version,
// by which the slots were chosen; Version 0 skips the check, for giving back.
type Reservation struct {
	Service string // ID of its workflow
	Version int
	Slots   []placement.Slot
	Forget  bool // the service is gone: no further changes are sent to it

	Wants []Want `json:",omitempty"` // hosts that it wants besides, in place of earlier wants
}

// IdentifyInput is the input of Identify.
type IdentifyInput struct {
	Modules []pipelines.Module
}

// ProfileInput is the input of ProfileModule.
type ProfileInput struct {
	Pipeline pipelines.Pipeline
	Module   string
	Hardware string
	Device   string
	Cores    int  `json:",omitempty"` // of the device, where it is an instance
	Again    bool `json:",omitempty"` // measure what is kept, too
}

// KeepInput is the input of KeepProfile.
type KeepInput struct {
	Pipeline pipelines.Pipeline
	Module   string
	Hardware string
	Cores    int               `json:",omitempty"` // of a device of that hardware, where it is an instance
	Points   []pipelines.Point // of this and other hardware
}

// ProfileResult is what is known of a module on one kind of hardware.
type ProfileResult struct {
	Module   string
	Points   []pipelines.Point
	Reused   int           // points that were on file
	Measured int           // points that were measured now
	Took     time.Duration // of this attempt
}

// ExecutorResult states why an executor ended in good order.
type ExecutorResult struct {
	Executor string
	Reason   string
	Batches  int64
	Items    int64
	Failed   int64
}

// Task queues.
const (
	ControlQueue = "harpagon-control" // workflows, Planning and Fleet
	GatewayQueue = "harpagon-gateway" // of the one gateway, for workflows begun before there were several
)

// OldControlQueue is where workflows ran before there was one type for services
// of all kinds. This program cannot go on with them.
const OldControlQueue = "harpagon"

// HostQueue is the task queue of one host.
func HostQueue(host string) string { return "harpagon-host-" + host }

// The fleet workflow as its callers see it.
const (
	FleetID       = "fleet"    // workflow ID
	FleetWorkflow = "fleet"    // workflow type
	FleetJoin     = "join"     // update: HostInfo -> FleetView
	FleetEnter    = "enter"    // update: Member -> FleetView
	FleetOwn      = "own"      // update: OwnClaim -> FleetView
	FleetReserve  = "reserve"  // update: Reservation -> FleetView
	FleetWant     = "want"     // update: WantRequest -> FleetView
	FleetWatch    = "watch"    // update: ID of a service's workflow -> FleetView
	FleetDevices  = "devices"  // query: -> FleetView
	FleetLeave    = "leave"    // update: name of a host that is about to go -> FleetView
	FleetDoubt    = "doubt"    // signal: name of a host to which a gateway has lost its connections
	FleetUnheld   = "unheld"   // signal: ID of a workflow that held a host or a member, and was ended
	TypeConflict  = "Conflict" // error type of a reservation that came too late
)

// QueryState queries the whole state of the workflow of a service, or the fleet's, so that
// another can go on from there; one that has been ended answers, too.
const QueryState = "state"

// Error types on which no retry helps.
const (
	TypeInfeasible = "Infeasible" // no plan keeps the objective
	TypeReverted   = "Reverted"   // a change was tried and taken back
	TypeMisfit     = "Misfit"     // the plan does not fit onto the devices
	TypeAwaits     = "Awaits"     // hosts are requested, and it is tried again when one joins
	TypeLoad       = "Load"       // an engine is missing, or cannot load a module
	TypeInvalid    = "Invalid"    // the input makes no sense
	TypeLeft       = "Left"       // the gateway that was to do it has left the fleet
	TypeNotReady   = "NotReady"   // executors did not come or go in time, or a provider does not answer
	TypeFenced     = "Fenced"     // the lease ran out; another worker may try
	TypeStopping   = "Stopping"   // the worker shuts down; another may try
)

// DefaultHeartbeatTimeout is how long an executor or a host may be silent
// before it counts as lost.
const DefaultHeartbeatTimeout = 10 * time.Second

// DrainTimeout is how long a host's worker waits at shutdown for its executors
// to finish what they hold.
const DrainTimeout = 35 * time.Second

// crowd is from how many executors of one service on each may be silent for longer.
const crowd = 200

// HeartbeatTimeout is how long one of so many executors of a service may be silent. Every
// heartbeat is a write of the server, so that beyond a crowd each sends fewer: all together
// no more than 80 a second. Gateways notice a loss by broken connections, and services by
// the heartbeats of the host.
func HeartbeatTimeout(executors int) time.Duration {
	return max(DefaultHeartbeatTimeout, DefaultHeartbeatTimeout*time.Duration(executors)/crowd)
}
