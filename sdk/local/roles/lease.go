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
	"github.com/harpagon/harpagon/workflows/control"
)

// How a dispatcher comes by what it owns.
const (
	// warmUp is how long gateways and executors have to come to a dispatcher that has
	// just joined, before the fleet gives it services that another owns.
	warmUp = 3 * time.Second

	// gatherFor is how long it waits for others to say which services have lost their
	// owner with the first.
	gatherFor = 2 * time.Millisecond

	// askWithin is how long the fleet may take to grant services whose owner is gone.
	// When it has not, the dispatcher decides for them all the same: what serves goes on
	// while Temporal is away. It asks again every askAgain.
	askWithin = 700 * time.Millisecond
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
	tell     func(string)

	mu       sync.Mutex
	orphaned map[string]uint64 // epoch of the owner that is gone, by service
	wake     chan struct{}
	warming  bool          // it will be ready soon
	warm     chan struct{} // is sent to when it is
}

// orphan hears of a service that has lost its owner.
func (l *lease) orphan(service string, epoch uint64) {
	l.mu.Lock()
	l.orphaned[service] = max(l.orphaned[service], epoch)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func newLease() *lease {
	return &lease{replaced: make(chan struct{}), orphaned: map[string]uint64{}, wake: make(chan struct{}, 1), warm: make(chan struct{}, 1)}
}

// join makes the dispatcher a member of the fleet until life ends.
func (d *Dispatcher) join(ctx, life context.Context, c client.Client, o DispatcherOptions, executors string) error {
	l := d.lease
	l.commands, l.tell = control.New(c, control.Options{}), o.Tell
	l.member = activities.Member{Kind: activities.KindDispatcher, Name: o.Name, Instance: rand.Text(), Address: d.Addr, Attach: executors}
	l.held = &activities.DispatcherActivities{Server: d.Server, Pulse: activities.ClientPulse(c), Presence: &l.presence, Unready: l.unready}
	l.worker = worker.New(c, l.member.Queue(), activities.GatewayWorkerOptions())
	activities.RegisterDispatcher(l.worker, l.held)
	if err := l.worker.Start(); err != nil {
		return fmt.Errorf("roles: dispatcher: %w", err)
	}
	enter := func(ctx context.Context) error {
		view, err := l.commands.Enter(ctx, l.member)
		if err != nil {
			return err
		}
		return l.obey(ctx, view)
	}
	if err := enter(ctx); err != nil {
		l.worker.Stop()
		return fmt.Errorf("roles: dispatcher: does a control role run? %w", err)
	}
	d.servers.Go(func() { l.run(life, d) })
	d.servers.Go(func() {
		if stay(life, &l.presence, enter) {
			close(l.replaced)
		}
	})
	return nil
}

// obey owns what the fleet says.
func (l *lease) obey(ctx context.Context, view activities.FleetView) error {
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

// run asks the fleet for its share once the dispatcher has warmed up, and for what has
// lost its owner whenever gateways say so.
func (l *lease) run(life context.Context, d *Dispatcher) {
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
		lost := maps.Clone(l.orphaned)
		l.mu.Unlock()
		if len(lost) > 0 {
			if err := l.ask(life, lost); err != nil && life.Err() == nil {
				l.ownAnyway(d, lost, err)
				again = time.After(askAgain)
			}
		}
		if ready && l.ask(life, nil) != nil {
			l.unready()
		}
	}
}

// ask asks the fleet for services that have lost their owner.
func (l *lease) ask(life context.Context, lost map[string]uint64) error {
	ctx, cancel := context.WithTimeout(life, askWithin)
	defer cancel()
	view, err := l.commands.Own(ctx, activities.OwnClaim{Name: l.member.Name, Instance: l.member.Instance, Lost: lost})
	if err != nil {
		return err
	}
	l.mu.Lock()
	for service, epoch := range lost {
		if l.orphaned[service] == epoch {
			delete(l.orphaned, service)
		}
	}
	l.mu.Unlock()
	return l.obey(life, view)
}

// ownAnyway decides for services without having been granted them. The fleet is told of
// the epoch as soon as it answers.
func (l *lease) ownAnyway(d *Dispatcher, lost map[string]uint64, why error) {
	owned := d.Server.Owns()
	for service, epoch := range lost {
		if owned[service] > 0 && owned[service] >= epoch {
			continue // by the attempt before
		}
		next := d.Server.OwnAfter(service, epoch)
		l.mu.Lock()
		l.orphaned[service] = max(l.orphaned[service], next)
		l.mu.Unlock()
		if l.tell != nil {
			l.tell(fmt.Sprintf("dispatcher: %s has lost its owner, and the fleet cannot be asked for it (%v); it is decided for here until it can", service, why))
		}
	}
}

var errReplaced = errors.New("another dispatcher has joined the fleet under this name; give each a name of its own with --name")
