package roles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/workflows/control"
)

// How a dispatcher comes by what it owns.
const (
	// warmUp is how long gateways and executors have to come to a dispatcher that has
	// just joined, before the fleet gives it services that another owns.
	warmUp = 3 * time.Second

	// gatherFor is how long it waits for gateways to say which services have lost their
	// owner with the first, before it tells the fleet.
	gatherFor = 2 * time.Millisecond

	// askWithin is how long the fleet may take to answer; askAgain is between attempts.
	askWithin = 5 * time.Second
	askAgain  = time.Second
)

// lease is a dispatcher's part in the fleet: what it owns is granted there.
type lease struct {
	commands *control.Control
	member   activities.Member
	held     *activities.DispatcherActivities
	presence activities.Presence
	replaced chan struct{} // closed when another process has taken the name
	worker   worker.Worker

	mu      sync.Mutex
	server  *server.Server
	claimed map[string]uint64 // epoch by service, that the fleet has not heard of
	wake    chan struct{}
	warming bool          // it will be ready soon
	warm    chan struct{} // is sent to when it is
}

// claimOrphan decides for a service that has lost its owner, at once: epochs make that safe,
// and the fleet is told after. So it goes on while Temporal is slow or away.
func (l *lease) claimOrphan(service string, epoch uint64) {
	l.mu.Lock()
	l.claimed[service] = l.server.OwnAfter(service, epoch)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func newLease() *lease {
	return &lease{replaced: make(chan struct{}), claimed: map[string]uint64{}, wake: make(chan struct{}, 1), warm: make(chan struct{}, 1)}
}

// join makes the dispatcher a member of the fleet until life ends.
func (d *Dispatcher) join(ctx, life context.Context, c client.Client, o DispatcherOptions, executors string) error {
	l := d.lease
	l.commands = control.New(c, control.Options{})
	l.member = activities.Member{Kind: activities.KindDispatcher, Name: o.Name, Instance: rand.Text(), Address: d.Addr, Attach: executors}
	l.held = &activities.DispatcherActivities{Server: d.Server, Pulse: activities.ClientPulse(c), Presence: &l.presence, Unready: l.unready}
	l.worker = worker.New(c, l.member.Queue(), activities.GatewayWorkerOptions())
	activities.RegisterDispatcher(l.worker, l.held)
	if err := l.worker.Start(); err != nil {
		return fmt.Errorf("roles: dispatcher: %w", err)
	}
	view, err := l.commands.Enter(ctx, l.member)
	if err == nil {
		err = l.applyView(ctx, view)
	}
	if err != nil {
		l.worker.Stop()
		return fmt.Errorf("roles: dispatcher: does a control role run? %w", err)
	}
	enter := func(ctx context.Context) error {
		view, err := reenter(ctx, l.commands, l.member)
		if err != nil {
			return err
		}
		return l.applyView(ctx, view)
	}
	d.servers.Go(func() { l.run(life) })
	d.servers.Go(func() {
		if stay(life, &l.presence, enter) {
			close(l.replaced)
		}
	})
	return nil
}

// applyView owns what the fleet says.
func (l *lease) applyView(ctx context.Context, view activities.FleetView) error {
	in := activities.OwnInput{Moves: view.Moves, Owns: view.Owned(l.member)}
	for _, m := range view.Dispatchers() {
		in.Ready = in.Ready || m.Instance == l.member.Instance && m.Ready
	}
	return l.held.OwnServices(ctx, in)
}

// unready hears that the fleet gives the dispatcher nothing until it says that it is
// ready.
func (l *lease) unready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.warming {
		l.warming = true
		time.AfterFunc(warmUp, func() { l.warm <- struct{}{} })
	}
}

// run asks the fleet for its share once the dispatcher has warmed up, and tells it of
// what gateways have lost the owner of.
func (l *lease) run(life context.Context) {
	defer l.worker.Stop()
	var again <-chan time.Time
	for {
		ready := false
		select {
		case <-l.wake:
			time.Sleep(gatherFor)
		case <-again:
		case <-l.warm:
			ready = true
			l.mu.Lock()
			l.warming = false
			l.mu.Unlock()
		case <-life.Done():
			return
		}
		again = nil
		l.mu.Lock()
		claimed := maps.Clone(l.claimed)
		l.mu.Unlock()
		if len(claimed) > 0 && l.ask(life, claimed) != nil {
			again = time.After(askAgain)
		}
		if ready && l.ask(life, nil) != nil {
			l.unready()
		}
	}
}

// ask tells the fleet what the dispatcher has claimed, or that it is ready, and hears
// what it owns.
func (l *lease) ask(life context.Context, claimed map[string]uint64) error {
	ctx, cancel := context.WithTimeout(life, askWithin)
	defer cancel()
	view, err := l.commands.Own(ctx, activities.OwnClaim{Name: l.member.Name, Instance: l.member.Instance, Claimed: claimed})
	if err != nil {
		return err
	}
	l.mu.Lock()
	for service, epoch := range claimed {
		if l.claimed[service] == epoch {
			delete(l.claimed, service)
		}
	}
	l.mu.Unlock()
	return l.applyView(life, view)
}

var errReplaced = errors.New("another dispatcher has joined the fleet under this name; give each a name of its own with --name")
