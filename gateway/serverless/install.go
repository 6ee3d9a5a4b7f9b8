package serverless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// pollEvery is the pace at which Remove looks whether requests are done.
const pollEvery = 2 * time.Millisecond

// describeTime is how long Install waits for a provider to describe its
// function.
const describeTime = 2 * time.Second

// Prepare checks that a deployment can be served: its addresses and token, and
// that the provider answers there. Traffic does not change.
func (s *Server) Prepare(ctx context.Context, d functions.Deployment) error {
	if err := d.Check(); err != nil {
		return err
	}
	for i := range d.Plan.Groups {
		t, err := s.options.Invoker.Target(d, i)
		if err != nil {
			return err
		}
		if _, err := t.Describe(ctx); err != nil && !errors.Is(err, invoke.ErrUnknown) {
			return fmt.Errorf("serverless: function %q cannot be reached: %w; is the provider there? harpagon provider stands in for one on this machine", d.Function.Name, err)
		}
	}
	return nil
}

// Install switches a function to the deployment: requests that wait move to its
// queues, and calls under way end. To install the generation that is installed
// already changes nothing; an older one is refused.
func (s *Server) Install(ctx context.Context, d functions.Deployment) error {
	g, err := s.compile(ctx, d)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.function(d.Function.Name)
	if f == nil {
		f = &function{server: s, name: d.Function.Name, waiting: map[dispatch.RequestID]*request{}}
		f.install(g)
		s.installed(f, g, 0, 0)
		s.store(func(all map[string]*function) { all[f.name] = f })
		return nil
	}
	have := f.generation()
	switch {
	case have == d.Generation:
		return nil
	case have > d.Generation:
		return fmt.Errorf("serverless: function %q serves generation %d; generation %d is older", f.name, have, d.Generation)
	}
	s.installed(f, g, have, f.install(g))
	return nil
}

func (s *Server) installed(f *function, g *generation, before, moved int) {
	o := s.options.Observer.Installed
	if o == nil {
		return
	}
	policies := map[string]string{}
	for _, one := range g.groups {
		policies[one.Name] = f.policy.Name()
	}
	o(gateway.InstallInfo{Pipeline: f.name, Generation: g.deployment.Generation, Previous: before, Moved: moved, Policies: policies})
}

func (f *function) generation() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current.deployment.Generation
}

// compile makes targets, applications and counts of a deployment.
func (s *Server) compile(ctx context.Context, d functions.Deployment) (*generation, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	g := &generation{deployment: d, inputs: d.Function.Inputs, limit: d.Provider.CallConcurrency()}
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var sizes []string
	var apps [][]string
	for i, group := range d.Plan.Groups {
		t, err := s.options.Invoker.Target(d, i)
		if err != nil {
			return nil, err
		}
		// A provider that is away or describes nothing does not keep a function
		// from being served: it may be back for the first request.
		if m, err := t.Describe(ctx); err == nil {
			g.outputs = m.Outputs
			if len(g.inputs) == 0 {
				g.inputs = m.Inputs
			}
		}
		g.targets = append(g.targets, t)
		var members []string
		for _, a := range group.Applications {
			g.apps = append(g.apps, newApplication(a, int32(len(g.apps)), i, s.options.Span, s.now()))
			members = append(members, a.Name)
		}
		sizes, apps = append(sizes, group.Describe()), append(apps, members)
	}
	for _, name := range names(sizes, apps) {
		g.groups = append(g.groups, functions.GroupMeasures{Name: name, Errors: map[string]int64{}})
	}
	return g, nil
}

// policy is the configuration of policy grouped: a batch leaves a margin before the plan's timeout,
// and a request is given up when not even a call of its own would be in time, on
// average. The plan's maximum of a full batch would give up what leaves at its
// timeout whenever a timer is late.
func (s *Server) policy(d functions.Deployment) grouped.Options {
	problem := functions.Problem{Function: d.Function, Provider: d.Provider}
	o := d.Plan.Dispatch()
	o.MaxQueue = s.options.MaxInFlight
	for i := range o.Groups {
		g := &o.Groups[i]
		single, _ := problem.Latency(d.Plan.Groups[i].Offer, 1)
		g.Duration = min(g.Duration, time.Duration(single*float64(time.Second)))
		for j := range g.Applications {
			g.Applications[j].Timeout = max(0, g.Applications[j].Timeout-max(0, s.options.Margin))
		}
	}
	return o
}

// install puts a generation in charge of what waits, and says how much did.
func (f *function) install(g *generation) int {
	f.mu.Lock()
	now := f.server.now()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.current, f.policy = g, grouped.New(f.server.policy(g.deployment))
	f.doors = make([]door, len(g.groups))
	calls := f.admitCalls(now)
	waiting := f.inOrder()
	for _, r := range waiting {
		a := g.app(r.app.name)
		if a == nil {
			f.settle(now, r, nil, r.fault(now, wire.CodeUnavailable, "its application is not served any more"))
			continue
		}
		f.move(r, a)
		calls = append(calls, f.step(now, dispatch.Event{Kind: dispatch.Arrive, Request: r.seen()})...)
	}
	f.mu.Unlock()
	f.launch(calls)
	return len(waiting)
}

// inOrder lists what waits, first come first.
func (f *function) inOrder() []*request {
	return slices.SortedFunc(maps.Values(f.waiting), func(a, b *request) int { return cmp.Compare(a.id, b.id) })
}

// move hands a waiting request over to the new generation's application, with
// its count.
func (f *function) move(r *request, to *application) {
	r.app.counts.Requests--
	to.counts.Requests++
	r.app = to
}

// Remove stops serving a function: new requests are refused, and it waits until
// those under way have ended. A function that is not served is removed already.
func (s *Server) Remove(ctx context.Context, name string) error {
	s.mu.Lock()
	f := s.function(name)
	s.store(func(all map[string]*function) { delete(all, name) })
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	for f.underWay() > 0 {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("serverless: requests of function %q are still under way: %w", name, context.Cause(ctx))
		}
	}
	return nil
}

func (f *function) underWay() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inFlight
}
