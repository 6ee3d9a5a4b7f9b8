package roles

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// front is a gateway as its callers meet it, and as workflows do. It knows which
// services exist and are not served here yet: those are unavailable, for now, and not
// unknown.
type front struct {
	*gateway.Gateway

	mu        sync.Mutex
	announced map[string]bool // services that exist and are not ready
	state     state
}

// state of a front.
type state uint8

const (
	starting state = iota // it has not been told of all services
	serving
	leaving // it is about to stop
)

func newFront(g *gateway.Gateway) *front { return &front{Gateway: g, announced: map[string]bool{}} }

// Announce says that a service exists and is not ready.
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

// knows says whether the gateway has been knows of a service.
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

// Ready is nil when the gateway has been told of all services and is not about to
// stop; each service says of itself whether it is.
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

// known turns the error of a service that is not served here into one that says that
// it will be, where that is so, or may be.
func (f *front) known(name string, err error) error {
	if !errors.Is(err, wire.ErrNotFound) {
		return err
	}
	service, _, _ := strings.Cut(name, "/")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.announced[name], f.announced[service]:
		return wire.Errorf(wire.CodeUnavailable, "", "%s exists and is not ready to be served; harpagon status %s says how far it is", service, service)
	case f.state == starting:
		return isStarting("has not been told of " + service + " yet")
	}
	return err
}

func isStarting(how string) error {
	e := wire.Errorf(wire.CodeUnavailable, "", "this gateway has just started and %s; come again in a second", how)
	e.Starting = true
	return e
}
