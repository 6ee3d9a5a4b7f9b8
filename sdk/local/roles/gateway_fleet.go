package roles

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
	"github.com/harpagon/harpagon/workflows/control"
)

// member describes the gateway to the fleet.
func (r *Gateway) member(name string) activities.Member {
	m := activities.Member{Kind: activities.KindGateway, Name: name, Instance: rand.Text(), Address: r.HTTP, Attach: r.Attach}
	if m.Address == "" {
		m.Address = r.GRPC
	}
	if m.Name == "" {
		m.Name, _ = os.Hostname()
		if _, port, err := net.SplitHostPort(m.Address); err == nil {
			m.Name += "-" + port
		}
	}
	return m
}

// join makes the gateway part of the fleet, and keeps it so until life ends.
func (r *Gateway) join(ctx, life context.Context, c client.Client, commands *control.Control, name string) error {
	r.Member = r.member(name)
	for _, queue := range []string{r.Member.Queue(), activities.GatewayQueue} {
		w := worker.New(c, queue, activities.GatewayWorkerOptions())
		held := &activities.GatewayActivities{Gateway: r.front, Pulse: activities.ClientPulse(c), Presence: &r.presence}
		if r.learns {
			held.Dispatchers = r.followers.use
		}
		activities.RegisterGateway(w, held)
		if err := w.Start(); err != nil {
			return fmt.Errorf("roles: gateway: %w", err)
		}
		r.workers = append(r.workers, w)
	}
	view, err := commands.Enter(ctx, r.Member)
	if err != nil {
		return fmt.Errorf("roles: gateway: does a control role run? %w", err)
	}
	r.learn(view)
	r.servers.Go(func() { r.settle(life, commands, view) })
	r.servers.Go(func() { r.front.keepReviewing(life, commands) })
	r.servers.Go(func() {
		enter := func(ctx context.Context) error {
			view, err := reenter(ctx, commands, r.Member)
			if err == nil {
				r.learn(view)
				r.front.review(ctx, commands)
			}
			return err
		}
		if rejoinLoop(life, &r.presence, enter) {
			close(r.replaced)
		}
	})
	return nil
}

// learn takes the dispatchers from a view of the fleet.
func (r *Gateway) learn(view activities.FleetView) {
	if r.learns {
		r.followers.use(activities.DispatchersInput{Version: view.Version, Dispatchers: view.Dispatchers()})
	}
}

// settleEvery is the pace at which a gateway that has just started checks whether all
// services have been installed.
const settleEvery = 500 * time.Millisecond

// settle waits until the gateway has been notified of every service, and makes it ready
// then.
func (r *Gateway) settle(life context.Context, commands *control.Control, view activities.FleetView) {
	for !r.knowsAll(view.Services) {
		select {
		case <-time.After(settleEvery):
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		if now, err := commands.Fleet(ctx); err == nil {
			view = now // services may have gone meanwhile
		}
		cancel()
	}
	r.front.enter(serving)
}

// knowsAll reports whether the gateway has been notified of services, by the IDs of their
// workflows.
func (r *Gateway) knowsAll(ids []string) bool {
	for _, id := range ids {
		if _, name, _ := strings.Cut(id, "/"); !r.front.knows(name) {
			return false
		}
	}
	return true
}

// Leave reports that the gateway is not ready any more, while it still takes requests.
func (r *Gateway) Leave() { r.front.enter(leaving) }

// OfFleet stands for the addresses of the dispatchers that are members of the fleet.
const OfFleet = "fleet"

// How a gateway comes to its dispatchers again.
const (
	followTimeout = 2 * time.Second
	followEvery   = 50 * time.Millisecond
)

// followers keep a gateway joined to dispatchers.
type followers struct {
	life        context.Context
	gateway     *gateway.Gateway
	name        string
	credentials secure.Credentials
	patience    time.Duration
	tell        func(string)
	running     sync.WaitGroup

	mu      sync.Mutex
	version int      // of the fleet
	wanted  []string // addresses
	joined  []string // addresses that are followed or dialled
}

// use takes the dispatchers of the fleet.
func (f *followers) use(in activities.DispatchersInput) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Version < f.version {
		return
	}
	f.version, f.wanted = in.Version, nil
	for _, m := range in.Dispatchers {
		f.want(m.Address)
	}
}

// add follows one for good.
func (f *followers) add(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want(address)
}

// wait returns when no dispatcher is followed any more, once life has ended.
func (f *followers) wait() {
	f.mu.Lock()
	f.wanted = nil // the fleet may still send others
	f.mu.Unlock()
	f.running.Wait()
}

// want has an address followed. The lock is held.
func (f *followers) want(address string) {
	if f.life.Err() != nil {
		return
	}
	f.wanted = append(f.wanted, address)
	if !slices.Contains(f.joined, address) {
		f.joined = append(f.joined, address)
		f.running.Go(func() { f.follow(address) })
	}
}

// still reports whether an address is to be dialled again, and forgets it where it is not.
// A dispatcher that the fleet has lost sight of may decide well for as long as the
// connection lasts.
func (f *followers) still(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() == nil && slices.Contains(f.wanted, address) {
		return true
	}
	f.joined = slices.DeleteFunc(f.joined, func(other string) bool { return other == address })
	return false
}

// follow keeps the gateway joined to a dispatcher until life ends, or the fleet lists it no
// more. An error is logged when it differs from the last.
func (f *followers) follow(address string) {
	said := ""
	for f.still(address) {
		conn, err := dialDispatcher(f.life, address, f.credentials)
		if err == nil {
			said = ""
			unlink := context.AfterFunc(f.life, func() { _ = conn.Close() })
			err = f.gateway.ServeDispatcher(conn, f.name, f.credentials.Token, f.patience)
			unlink()
		}
		if err != nil && f.life.Err() == nil && err.Error() != said {
			said = err.Error()
			f.tell(fmt.Sprintf("gateway: the dispatcher at %s: %v", address, err))
		}
		select {
		case <-time.After(followEvery):
		case <-f.life.Done():
		}
	}
}

func dialDispatcher(ctx context.Context, address string, c secure.Credentials) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := c.MaySend(host, c.Identity != nil); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, followTimeout)
	defer end()
	var over *tls.Config
	if c.Identity != nil {
		over = c.Identity.Client(host)
	}
	return stream.Dial(ctx, address, over)
}
