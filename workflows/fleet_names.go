package workflows

import (
	"time"

	"github.com/harpagon/harpagon/activities"
)

// Workflow types.
const (
	TypeFleet  = activities.FleetWorkflow
	TypeHost   = "host"
	TypeMember = "member"
)

// SignalFleetChanged tells a service that watches the fleet of a FleetChange.
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

	// ReturnTime is how long members of the fleet may take to ask for work again
	// after the server was away: their clients wait up to ten seconds between two
	// attempts.
	ReturnTime = 15 * time.Second
)

// FleetChange tells a service of hosts that came and went, and of the gateways that
// there are where that has changed.
type FleetChange struct {
	Joined  []string
	Lost    []string
	Leaving []string `json:",omitempty"` // that are about to go

	Restarted []string `json:",omitempty"` // those of Joined whose process is another than before

	Members  bool                `json:",omitempty"` // the gateways have changed
	Gateways []activities.Member `json:",omitempty"` // all that are present
	New      []activities.Member `json:",omitempty"` // those of them that have just joined

	Offers bool `json:",omitempty"` // hosts can be had that could not before

	Anew bool `json:",omitempty"` // the fleet may not know what the service holds: it is to say so
}

func (c *FleetChange) ofHosts() bool {
	return len(c.Joined)+len(c.Lost)+len(c.Leaving) > 0 || c.Offers || c.Anew
}

// HostID is the workflow ID of a host.
func HostID(name string) string { return "host/" + name }

// MemberID is the workflow ID of a gateway or a dispatcher.
func MemberID(m activities.Member) string { return string(m.Kind) + "/" + m.Name + "/" + m.Instance }
