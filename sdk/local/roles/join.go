package roles

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
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
		if stay(life, &r.presence, enter) {
			close(r.replaced)
		}
	})
	return nil
}

// learn hears from the fleet which dispatchers there are.
func (r *Gateway) learn(view activities.FleetView) {
	if r.learns {
		r.followers.use(activities.DispatchersInput{Version: view.Version, Dispatchers: view.Dispatchers()})
	}
}

// settleEvery is the pace at which a gateway that has just started looks whether it has
// been told of all services.
const settleEvery = 500 * time.Millisecond

// settle waits until the gateway has been told of every service, and is ready then.
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

// knowsAll says whether the gateway has been told of services, by the IDs of their
// workflows.
func (r *Gateway) knowsAll(ids []string) bool {
	for _, id := range ids {
		if _, name, _ := strings.Cut(id, "/"); !r.front.knows(name) {
			return false
		}
	}
	return true
}

// Leave says that the gateway is not ready any more, while it still takes requests.
func (r *Gateway) Leave() { r.front.enter(leaving) }
