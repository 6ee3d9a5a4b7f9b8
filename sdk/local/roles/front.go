package roles

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// front is a gateway as callers and workflows see it. It keeps the services that exist and
// are not served here yet: those are unavailable, for now, and not unknown.
type front struct {
	*gateway.Gateway

	mu        sync.Mutex
	announced map[string]bool // services that exist and are not ready
	state     state
}

// state of a front.
type state uint8

const (
	starting state = iota // not all services have been installed
	serving
	leaving // it is about to stop
)

func newFront(g *gateway.Gateway) *front { return &front{Gateway: g, announced: map[string]bool{}} }

// Announce reports that a service exists and is not ready.
func (f *front) Announce(service string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announced[service] = true
}

// Remove stops serving a service, which exists no more.
func (f *front) Remove(ctx context.Context, service string, since placement.Age) error {
	f.mu.Lock()
	delete(f.announced, service)
	f.mu.Unlock()
	return f.Gateway.Remove(ctx, service, since)
}

// knows reports whether the gateway has been notified of a service.
func (f *front) knows(service string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, installed := f.Deployment(service)
	return installed || f.announced[service]
}

func (f *front) enter(s state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
}

// Ready is nil when all services have been installed and the gateway is not about to stop;
// each service has a readiness of its own.
func (f *front) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.state {
	case starting:
		return isStarting("is still being given its services")
	case leaving:
		return wire.Errorf(wire.CodeUnavailable, "", "this gateway is about to stop; ask another")
	}
	return nil
}

// Infer implements wire.Backend.
func (f *front) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	r, err := f.Gateway.Infer(ctx, q)
	if err != nil {
		err = f.known(q.Pipeline, err)
	}
	return r, err
}

// Metadata implements wire.Backend.
func (f *front) Metadata(ctx context.Context, name string) (*wire.Metadata, error) {
	m, err := f.Gateway.Metadata(ctx, name)
	if err != nil {
		err = f.known(name, err)
	}
	return m, err
}

// known replaces the error of a service that is not served here where the service exists,
// or may exist.
func (f *front) known(name string, err error) error {
	if !errors.Is(err, wire.ErrNotFound) {
		return err
	}
	service, _, _ := strings.Cut(name, "/")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.announced[name], f.announced[service]:
		return wire.Errorf(wire.CodeUnavailable, "", "%s exists and is not ready to be served; harpagon status %s shows its progress", service, service)
	case f.state == starting:
		return isStarting("has not been notified of " + service + " yet")
	}
	return err
}

func isStarting(how string) error {
	e := wire.Errorf(wire.CodeUnavailable, "", "this gateway has just started and %s; retry in a second", how)
	e.Starting = true
	return e
}

// A gateway that was stopped, or cut off from Temporal, when a service was deleted or
// drained, or a trial of it ended, is not notified later: a workflow that ends a service
// does not wait for gateways that do not answer. So gateways check by themselves.

// reviewEvery is the pace at which a gateway looks whether what it serves exists still.
const reviewEvery = 30 * time.Second

// knower is the source of a gateway's review; a *control.Control.
type knower interface {
	Fleet(context.Context) (activities.FleetView, error)
	Status(context.Context, string) (control.Status, error)
}

// keepReviewing reviews again and again until life ends.
func (f *front) keepReviewing(life context.Context, of knower) {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		f.review(ctx, of)
		cancel()
	}
}

// review stops serving what is served no more. The fleet's view lists most services; the
// workflows of the others are queried. What has been installed since is of a later age than
// what is removed, and stays. Where Temporal does not answer everything stays.
func (f *front) review(ctx context.Context, of knower) {
	names := f.names()
	if len(names) == 0 {
		return
	}
	view, err := of.Fleet(ctx)
	if err != nil {
		return
	}
	exist := map[string]string{} // IDs by name
	for _, id := range view.Services {
		_, name, _ := strings.Cut(id, "/")
		exist[name] = id
	}
	for _, name := range names {
		served, serves := f.Deployment(name)
		tried, trial := f.Deployment(rollout.Name(name))
		id, exists := exist[name]
		if exists && !trial && (!serves || len(view.Reserved[id]) > 0) {
			continue
		}
		s, err := of.Status(ctx, name)
		gone := errors.Is(err, control.ErrNotFound)
		if err != nil && !gone {
			continue
		}
		if trial && (gone || s.Trial == nil) {
			_ = f.Try(name, pipelines.Update{})
			f.drop(ctx, rollout.Name(name), tried.Age())
		}
		if gone || s.Phase == workflows.Drained {
			f.drop(ctx, name, served.Age())
		}
		if !gone {
			f.Announce(name)
		}
	}
}

// names are those of the services that are served, or announced, in order.
func (f *front) names() []string {
	all := map[string]bool{}
	for _, name := range f.Services() {
		all[name] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(all, f.announced)
	return slices.Sorted(maps.Keys(all))
}

// drop stops serving what is of an age, or older.
func (f *front) drop(ctx context.Context, name string, age placement.Age) {
	age.Generation++
	_ = f.Remove(ctx, name, age) // it takes no requests any more, whatever becomes of those under way
}
