package activities

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Owner says which dispatcher decides for a service.
type Owner struct {
	Service    string // name
	Dispatcher string // name
	Instance   string // of its process
	Epoch      uint64 // grows with every change of any service
}

// OwnClaim is the input of the update FleetOwn: a dispatcher, a member already, says
// for which services it decides since gateways have lost the owner, or, without any,
// that it is ready for its share.
type OwnClaim struct {
	Name, Instance string
	Claimed        map[string]uint64 `json:",omitempty"` // epoch by service
}

// Dispatchers are the dispatchers that are present, sorted by name.
func (v FleetView) Dispatchers() []Member { return OfKind(v.Members, KindDispatcher) }

// Owned are the epochs of the services that a dispatcher owns.
func (v FleetView) Owned(m Member) map[string]uint64 {
	all := map[string]uint64{}
	for _, o := range v.Owners {
		if o.Instance == m.Instance {
			all[o.Service] = o.Epoch
		}
	}
	return all
}

// Epoch is the highest by which a service is owned.
func (v FleetView) Epoch() (highest uint64) {
	for _, o := range v.Owners {
		highest = max(highest, o.Epoch)
	}
	return highest
}

// Owning is a dispatcher as the fleet tells it what it owns; *server.Server of package dispatcher is one.
type Owning interface {
	Own(service string, epoch uint64)
	Disown(service string)
	Owns() map[string]uint64
}

// DispatcherActivities are the activities of one dispatcher.
type DispatcherActivities struct {
	Server   Owning
	Pulse    Pulse
	Presence *Presence

	Unready func() // is told that the fleet gives it nothing until it says that it is ready

	mu    sync.Mutex
	moves int // as it was told last
}

// HoldMember keeps the dispatcher present for as long as it heartbeats.
func (d *DispatcherActivities) HoldMember(ctx context.Context, _ Member) error {
	began := time.Now()
	return d.Presence.hold(ctx, newLease(ctx, d.Pulse, func() any {
		beat := memberBeat{Present: present(began)}
		for service := range d.Server.Owns() {
			beat.Services = append(beat.Services, service)
		}
		slices.Sort(beat.Services)
		return beat
	}))
}

// OwnInput is the input of OwnServices.
type OwnInput struct {
	Moves int               // FleetView.Moves: of two that cross, the later one counts
	Owns  map[string]uint64 // epoch by service: all of them
	Ready bool              // the fleet may give it more
}

// OwnServices tells the dispatcher what it decides for.
func (d *DispatcherActivities) OwnServices(_ context.Context, in OwnInput) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.Moves < d.moves {
		return nil
	}
	d.moves = in.Moves
	owned := d.Server.Owns()
	for service, epoch := range in.Owns {
		if owned[service] < epoch {
			d.Server.Own(service, epoch)
		}
	}
	for service := range owned {
		if _, still := in.Owns[service]; !still {
			d.Server.Disown(service)
		}
	}
	if !in.Ready && d.Unready != nil {
		d.Unready()
	}
	return nil
}

// DispatchersInput is the input of UseDispatchers.
type DispatchersInput struct {
	Version     int // of the fleet
	Dispatchers []Member
}

// UseDispatchers tells a gateway which dispatchers there are.
func (g *GatewayActivities) UseDispatchers(_ context.Context, in DispatchersInput) error {
	if g.Dispatchers != nil {
		g.Dispatchers(in)
	}
	return nil
}
