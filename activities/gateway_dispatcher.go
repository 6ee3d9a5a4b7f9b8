package activities

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Gateway is what workflows and roles want of a gateway, for services of every
// kind.
type Gateway interface {
	// Prepare waits until the deployment can be served: every executor of its
	// slots has attached; of a function, its provider answers. Traffic stays where
	// it is.
	Prepare(ctx context.Context, d placement.Deployment) error
	// Install switches traffic; what is under way finishes.
	Install(ctx context.Context, d placement.Deployment) error
	// Try gives the generation of a pipeline that is installed as its canary a share of
	// the requests; a zero update takes it back.
	Try(service string, update pipelines.Update) error
	// Release drains executors and waits until they have gone.
	Release(ctx context.Context, service string, executors []string) error
	// Announce reports that a service exists and is not ready to be served.
	Announce(service string)
	// Remove stops serving a service, after the requests under way. It exists no more.
	// Deployments from before an age are not installed any more.
	Remove(ctx context.Context, service string, since placement.Age) error
	// Services names what is installed, in order.
	Services() []string
	// Measures reports what happened lately.
	Measures(service string) autoscale.Measures
}

// GatewayActivities are the activities of one gateway. Temporal does not retry what fails
// there: the workflow decides when to retry, and whether to plan again first.
type GatewayActivities struct {
	Gateway Gateway

	// Pulse sends the heartbeats of HoldMember; see ClientPulse. Presence records whether
	// the fleet holds the gateway.
	Pulse    Pulse
	Presence *Presence

	Dispatchers func(DispatchersInput) // receives the dispatchers of the fleet; nil where none is used
}

// memberBeat is the details of a heartbeat of a gateway or a dispatcher.
type memberBeat struct {
	Present  string   // for how long
	Services []string // that it serves
}

// HoldMember keeps the gateway present for as long as it heartbeats.
func (g *GatewayActivities) HoldMember(ctx context.Context, _ Member) error {
	began := time.Now()
	return g.Presence.hold(ctx, newLease(ctx, g.Pulse, func() any { return memberBeat{present(began), g.Gateway.Services()} }))
}

// Announce reports that a service exists and is not ready, so that requests to it are
// answered so.
func (g *GatewayActivities) Announce(_ context.Context, service string) error {
	g.Gateway.Announce(service)
	return nil
}

// Prepare waits until the deployment can be served.
func (g *GatewayActivities) Prepare(ctx context.Context, d placement.Deployment) error {
	return waiting(ctx, func(ctx context.Context) error { return g.Gateway.Prepare(ctx, d) })
}

// Install switches the service's traffic to the deployment.
func (g *GatewayActivities) Install(ctx context.Context, d placement.Deployment) error {
	return waiting(ctx, func(ctx context.Context) error { return g.Gateway.Install(ctx, d) })
}

// TryInput is the input of Try.
type TryInput struct {
	Service string // name
	Update  pipelines.Update
}

// Try gives a pipeline's canary its share of the requests.
func (g *GatewayActivities) Try(ctx context.Context, in TryInput) error {
	return waiting(ctx, func(context.Context) error { return g.Gateway.Try(in.Service, in.Update) })
}

// ReleaseInput is the input of Release.
type ReleaseInput struct {
	Service   string // name
	Executors []string
}

// Release drains executors that traffic has left.
func (g *GatewayActivities) Release(ctx context.Context, in ReleaseInput) error {
	return waiting(ctx, func(ctx context.Context) error { return g.Gateway.Release(ctx, in.Service, in.Executors) })
}

// Remove stops serving the service of that name. Workflows of earlier versions give no age.
func (g *GatewayActivities) Remove(ctx context.Context, service string, since placement.Age) error {
	return waiting(ctx, func(ctx context.Context) error { return g.Gateway.Remove(ctx, service, since) })
}

// answerMargin is kept of an activity's time for the answer, so that the
// gateway's own reason arrives and not a bare time-out.
const answerMargin = 2 * time.Second

// waiting heartbeats beside work that waits for others. What fails has type
// TypeNotReady and its whole text as the reason: of an error with a cause only the
// innermost would be shown, and "connection refused" lacks the address.
func waiting(ctx context.Context, work func(context.Context) error) error {
	defer beat(ctx, nothing)()
	limit := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		limit, cancel = context.WithDeadline(ctx, deadline.Add(-answerMargin))
		defer cancel()
	}
	err := work(limit)
	if err != nil && ctx.Err() == nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), TypeNotReady, nil)
	}
	return err
}

// beat heartbeats beside work that waits, until the function that it returns
// is called. A cancellation reaches the work through ctx.
func beat(ctx context.Context, details func() any) (stop func()) {
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			activity.RecordHeartbeat(ctx, details())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// nothing is the details of a heartbeat without content.
func nothing() any { return nil }

// Owner states which dispatcher decides for a service.
type Owner struct {
	Service    string // name
	Dispatcher string // name
	Instance   string // of its process
	Epoch      uint64 // grows with every change of any service
}

// OwnClaim is the input of the update FleetOwn: a dispatcher that is a member lists the
// services that it took over since gateways have lost the owner, or, without any, reports
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

// Owning is a dispatcher to which the fleet assigns services; *server.Server of package
// dispatcher is one.
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

	Unready func() // called when the fleet assigns nothing until the dispatcher reports to be ready

	mu    sync.Mutex
	moves int // of the last OwnInput
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

// OwnServices assigns the dispatcher its services.
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

// UseDispatchers sends a gateway the dispatchers of the fleet.
func (g *GatewayActivities) UseDispatchers(_ context.Context, in DispatchersInput) error {
	if g.Dispatchers != nil {
		g.Dispatchers(in)
	}
	return nil
}
