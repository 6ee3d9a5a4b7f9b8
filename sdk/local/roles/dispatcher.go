package roles

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/queue"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
	"github.com/harpagon/harpagon/workflows/control"
)

// DispatcherOptions describes a dispatcher.
type DispatcherOptions struct {
	Addr        string             // HOST:PORT for gateways; executors come to the port after it
	Name        string             // of the process
	Credentials secure.Credentials // required of gateways and executors
	Log         func(string)       // receives connections that failed; may be nil
	Record      string             // as of GatewayOptions
	Policies    factory.Policies   // that the program brings to dispatch by
	Keepalive   time.Duration      // how long gateways and executors may be silent; 0 means keepalive.DefaultPatience

	// Connections is how many each of the two ports keeps open; 0 means
	// what package listen keeps.
	Connections int

	// Advertise is the address at which gateways reach Addr, and executors at the port
	// after it; empty means Addr itself.
	Advertise string

	// Client is of the Temporal server whose fleet the dispatcher joins, which grants
	// it services. Without, it claims all.
	Client client.Client
}

// Dispatcher is the role that decides when and where the items of gateways run.
type Dispatcher struct {
	Server *server.Server
	Addr   string // HOST:PORT for gateways

	lease   *lease // nil where no fleet grants services
	quit    context.CancelFunc
	servers sync.WaitGroup
}

// StartDispatcher starts the role, and joins the fleet if there is a Client; ctx bounds
// the start only.
func StartDispatcher(ctx context.Context, o DispatcherOptions) (*Dispatcher, error) {
	if err := checkRecord(o.Record); err != nil {
		return nil, err
	}
	gateways, executors, err := twoPorts(o)
	if err != nil {
		return nil, err
	}
	address := gateways.Addr().String()
	if gateways, err = listen.TLS(stream.Listener(gateways), o.Credentials.Identity); err != nil {
		_ = executors.Close()
		return nil, err
	}
	began := time.Now()
	memory := gateway.DefaultRecord
	if o.Record != "" {
		memory = recordMemory
	}
	queues := dispatcher.New(dispatcher.Options{
		Now: func() time.Duration { return time.Since(began) + 1 }, Margin: gateway.DefaultMargin,
		Span: gateway.DefaultSpan, FunctionSpan: gateway.DefaultFunctionSpan, Record: memory, Policies: o.Policies,
	})
	life, quit := context.WithCancel(context.Background())
	settings := server.Options{Name: o.Name, Callers: o.Credentials.Guard(), Patience: o.Keepalive}
	d := &Dispatcher{Addr: cmp.Or(o.Advertise, address), quit: quit}
	if o.Client != nil {
		d.lease = newLease()
		settings.Orphaned = d.lease.claimOrphan
	}
	if d.Server = server.New(queues, settings); o.Client == nil {
		d.Server.Claim()
	} else {
		d.lease.server = d.Server
	}
	d.servers.Go(func() {
		_ = listen.ServeEach(life, gateways, func(c net.Conn) {
			d.servers.Go(func() { d.serve(life, c, o.Log) })
		})
	})
	d.servers.Go(func() {
		newRecorder(o.Record, o.Log, func() recording.Recording {
			head := recording.Head{Program: "harpagon dispatcher", Written: time.Now(), Epoch: began}
			return recording.Recording{Head: head, Stations: queues.Recording()}
		}).keep(life)
	})
	d.servers.Go(func() {
		_ = attach.Serve(life, executors, attach.TCPOptions{Credentials: o.Credentials, Keepalive: o.Keepalive}, d.Server.Attach)
	})
	if o.Client == nil {
		return d, nil
	}
	toExecutors, err := executorsPort(d.Addr)
	if err == nil {
		err = d.join(ctx, life, o.Client, o, toExecutors)
	}
	if err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// serve serves the connection of a gateway, until life ends.
func (d *Dispatcher) serve(life context.Context, c net.Conn, tell func(string)) {
	stop := context.AfterFunc(life, func() { _ = c.Close() })
	defer stop()
	if err := d.Server.Serve(c); err != nil && tell != nil && life.Err() == nil {
		tell(fmt.Sprintf("dispatcher: a gateway at %s: %v", c.RemoteAddr(), err))
	}
}

// Stop ends the role. Gateways go on with another dispatcher.
func (d *Dispatcher) Stop() {
	d.quit()
	d.servers.Wait()
}

// twoPorts listens at the address for gateways and at the port after it. Where any port does, it takes others when
// that is in use.
func twoPorts(o DispatcherOptions) (gateways, executors net.Listener, err error) {
	_, port, _ := net.SplitHostPort(o.Addr)
	for tries := 1; ; tries++ {
		if gateways, err = listen.Frames(o.Addr, o.Credentials, o.Connections, queue.Refusal(listen.Beyond)); err != nil {
			return nil, nil, err
		}
		next, err := executorsPort(gateways.Addr().String())
		if err == nil {
			if executors, err = listen.Frames(next, o.Credentials, o.Connections, attach.Refusal(listen.Beyond)); err == nil {
				return gateways, executors, nil
			}
			err = fmt.Errorf("roles: dispatcher: executors come to the port after that of gateways: %w", err)
		}
		_ = gateways.Close()
		if port != "0" || tries == 10 {
			return nil, nil, err
		}
	}
}

// executorsPort is the address at which executors reach a dispatcher.
func executorsPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	n := 0
	if err == nil {
		n, err = strconv.Atoi(port)
	}
	if err != nil || n < 1 || n > 65534 {
		return "", fmt.Errorf("harpagon: the address of a dispatcher is HOST:PORT, for example 127.0.0.1:8094, not %q", address)
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1)), nil
}

// withDispatchers are the addresses that executors attach to.
func withDispatchers(gateway string, dispatchers []string) string {
	all := []string{gateway}
	for _, address := range dispatchers {
		if address == OfFleet {
			continue // workers learn those from the fleet, too
		}
		if next, err := executorsPort(address); err == nil {
			all = append(all, next)
		}
	}
	return strings.Join(all, ",")
}

// RunDispatcher runs the role until ctx ends.
func RunDispatcher(ctx context.Context, o DispatcherOptions, started func(*Dispatcher)) error {
	if o.Name == "" {
		return errors.New("roles: a dispatcher needs a name; set DispatcherOptions.Name")
	}
	d, err := StartDispatcher(ctx, o)
	if err != nil {
		return err
	}
	started(d)
	var replaced chan struct{}
	if d.lease != nil {
		replaced = d.lease.replaced
	}
	select {
	case <-ctx.Done():
	case <-replaced:
		err = errReplaced
	}
	d.Stop()
	return err
}

// How a dispatcher comes by what it owns.
const (
	// warmUp is how long gateways and executors have to come to a dispatcher that has
	// just joined, before the fleet gives it services that another owns.
	warmUp = 3 * time.Second

	// gatherFor is how long it collects further services that have lost their owner after
	// the first, before it reports them to the fleet.
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
	claimed map[string]uint64 // epoch by service, not sent to the fleet yet
	wake    chan struct{}
	warming bool          // it will be ready soon
	warm    chan struct{} // is sent to when it is
}

// claimOrphan takes a service over that has lost its owner, at once: epochs make that safe,
// and the fleet is notified after. So dispatch goes on while Temporal is slow or away.
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
		if rejoinLoop(life, &l.presence, enter) {
			close(l.replaced)
		}
	})
	return nil
}

// applyView owns what the fleet's view assigns.
func (l *lease) applyView(ctx context.Context, view activities.FleetView) error {
	in := activities.OwnInput{Moves: view.Moves, Owns: view.Owned(l.member)}
	for _, m := range view.Dispatchers() {
		in.Ready = in.Ready || m.Instance == l.member.Instance && m.Ready
	}
	return l.held.OwnServices(ctx, in)
}

// unready is called when the fleet assigns the dispatcher nothing until it reports to be
// ready.
func (l *lease) unready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.warming {
		l.warming = true
		time.AfterFunc(warmUp, func() { l.warm <- struct{}{} })
	}
}

// run requests its share from the fleet once the dispatcher has warmed up, and reports
// services that have lost their owner.
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

// ask reports to the fleet what the dispatcher has claimed, or that it is ready, and
// receives what it owns.
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
