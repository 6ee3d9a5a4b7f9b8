package activities

import "time"

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

// QueryState asks the workflow of a service, or the fleet's, for all that it knows, so that
// another can go on from there; one that has been ended answers, too.
const QueryState = "state"

// Error types on which no retry helps.
const (
	TypeInfeasible = "Infeasible" // no plan keeps the objective
	TypeReverted   = "Reverted"   // a change was tried and taken back
	TypeMisfit     = "Misfit"     // the plan does not fit onto the devices
	TypeAwaits     = "Awaits"     // hosts are asked for, and it is tried again when one joins
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
// heartbeat is a write of the server, so that beyond a crowd each says less: all together
// no more than 80 a second. Who waits for their answers learns of a loss by broken
// connections, and services by the heartbeats of the host.
func HeartbeatTimeout(executors int) time.Duration {
	return max(DefaultHeartbeatTimeout, DefaultHeartbeatTimeout*time.Duration(executors)/crowd)
}
