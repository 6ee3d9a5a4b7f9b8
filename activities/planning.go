package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Planning is the set of activities that decide. They are pure; as activities
// each decision is in the history with its input and its outcome. The zero
// value is ready for use.
type Planning struct {
	Policies scheduler.Policies // that the program brings

	joint searches
}

// PlanInput is the input of Plan.
type PlanInput struct {
	Spec   scheduler.Spec
	Beside []scheduler.Spec // services that are planned together with it
	Fleet  scheduler.Fleet

	// Relieve means that something serves already: where the devices of a pipeline that
	// degrades do not suffice for its rate, the plan is for as much of it as they do.
	Relieve bool `json:",omitempty"`

	// ShortSearch ends the search after shortSearchLimit.
	ShortSearch bool `json:"Hurry,omitempty"`
}

// shortSearchLimit is how long to search for a plan while what serves does not suit the queries
// that come. A pool's search begins with what its bounds say is best.
const shortSearchLimit = 4 * time.Second

// Plan chooses the plan of a service for the devices that there are: what
// `harpagon plan` prints for the same specs and fleet. A service that cannot be
// planned, or must not be served so, fails with type TypeInfeasible: no retry
// helps until the spec or the fleet changes. A search that takes too long is ended
// in time to return the best plan found; where it has found none by then, which a machine
// that is busy with other things does to searches that end elsewhere, it is made again
// with more time. Services that are planned together share one search.
func (a *Planning) Plan(ctx context.Context, in PlanInput) (scheduler.Plan, error) {
	defer beat(ctx, nothing)()
	limits := a.limits(ctx)
	if in.ShortSearch {
		limits.TimeLimit = shortSearchLimit
	}
	p, err := persist(limits, !in.ShortSearch, func(limits scheduler.Limits) (scheduler.Plan, error) { return a.joint.plan(ctx, in, limits) })
	if err != nil {
		return p, err
	}
	if in.Relieve && p.Reason() != "" {
		p = scheduler.Relieve(in.Spec, in.Fleet, limits, p)
	}
	if reason := p.Refusal(in.Spec); reason != "" {
		return p, temporal.NewNonRetryableApplicationError(reason, TypeInfeasible, nil)
	}
	return p, nil
}

// longestSearch is the most time that persist gives a search: with those before it, it
// ends before the activity does.
const longestSearch = 8 * scheduler.DefaultTimeLimit

// persist searches with more and more time for as long as the search was ended before it
// found a plan, where that is wanted.
func persist(limits scheduler.Limits, wanted bool, search func(scheduler.Limits) (scheduler.Plan, error)) (scheduler.Plan, error) {
	for ; ; limits.TimeLimit *= 2 {
		p, err := search(limits)
		if err != nil || !wanted || !p.Unfinished() || 2*limits.TimeLimit > longestSearch || limits.Stop() {
			return p, err
		}
	}
}

// MissingInput is the input of Missing.
type MissingInput struct {
	PlanInput                 // Beside is not looked at; Fleet has what is offered
	Given     *scheduler.Plan `json:",omitempty"` // that is to be placed; nil for the best
	MaxShare  float64         `json:",omitempty"` // see placement.Request
}

// MissingReply is the hosts to request.
type MissingReply struct {
	Wants  []Want
	Reason string `json:",omitempty"` // why all that is offered would not be enough
}

// Missing reports how many hosts would have to be made so that the service could be planned and
// placed: the least number, dear ones first, by planning and placing for one number after
// the other. Engines that no host has identified are taken to need the memory of their
// profiles.
func (a *Planning) Missing(ctx context.Context, in MissingInput) (MissingReply, error) {
	defer beat(ctx, nothing)()
	limits := a.limits(ctx)
	price := func(o scheduler.Offer) float64 {
		i := slices.IndexFunc(in.Spec.Hardware, func(h pipelines.Hardware) bool { return h.Name == o.Hardware })
		if i < 0 {
			return -1
		}
		return in.Spec.Hardware[i].Price * float64(o.Devices)
	}
	in.Fleet.Offers = slices.DeleteFunc(in.Fleet.Offers, func(o scheduler.Offer) bool { return price(o) < 0 })
	slices.SortStableFunc(in.Fleet.Offers, func(x, y scheduler.Offer) int { return cmp.Compare(price(y), price(x)) })
	enough := func(f scheduler.Fleet) error {
		p := in.Given
		if p == nil {
			found := scheduler.Solve([]scheduler.Spec{in.Spec}, f, limits)[0]
			if reason := found.Refusal(in.Spec); reason != "" {
				return errors.New(reason)
			}
			if p = &found; p.Cluster != nil {
				in.Given = p // it counts devices, so that it is looked for once
			}
		}
		return placed(in, *p, f)
	}
	found, err := in.Fleet.Missing(enough)
	if ctx.Err() != nil {
		return MissingReply{}, ctx.Err()
	}
	if err != nil {
		return MissingReply{Reason: err.Error()}, nil
	}
	var reply MissingReply
	for _, o := range found {
		reply.Wants = append(reply.Wants, Want{o.Hardware, o.Hosts})
	}
	return reply, nil
}

// placed reports why a plan finds no devices.
func placed(in MissingInput, p scheduler.Plan, f scheduler.Fleet) (err error) {
	d := in.Spec.Deploy(0, p)
	if d.Cluster != nil {
		_, err = placement.PlaceCluster(placement.ClusterRequest{Cluster: *d.Cluster, Devices: f.Devices, Reserved: f.Held})
	} else {
		_, err = placement.Place(placement.Request{
			Pipeline: d.Pipeline, Plan: d.Plan, Devices: f.Devices, Reserved: f.Held, MaxShare: in.MaxShare, Whole: in.Spec.Pool != nil,
		})
	}
	return err
}

// limits are those of a search that an activity begins now.
func (a *Planning) limits(ctx context.Context) scheduler.Limits {
	began := time.Now()
	return scheduler.Limits{
		Clock: func() time.Duration { return time.Since(began) }, TimeLimit: scheduler.DefaultTimeLimit, Stop: outOfTime(ctx), Policies: a.Policies,
	}
}

// outOfTime reports when a search is to end: with the activity, or shortly before its
// time is over.
func outOfTime(ctx context.Context) func() bool {
	deadline, bounded := ctx.Deadline()
	return func() bool { return ctx.Err() != nil || bounded && time.Until(deadline) < answerMargin }
}

// Place finds a device for every executor of the plan. What does not fit fails
// with type TypeMisfit: no retry helps until devices come or go.
func (*Planning) Place(_ context.Context, in placement.Request) (placement.Placement, error) {
	p, err := placement.Place(in)
	return p, misplaced(err, in.Pipeline.Modules)
}

// PlaceCluster finds devices for the executors of a cluster, and fails as Place does.
func (*Planning) PlaceCluster(_ context.Context, in placement.ClusterRequest) (placement.Placement, error) {
	p, err := placement.PlaceCluster(in)
	return p, misplaced(err, in.Cluster.Union())
}

// misplaced reports why modules found no devices; nil where they did.
func misplaced(err error, modules []pipelines.Module) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*placement.MisfitError)):
		reason := err.Error()
		if warning := pipelines.Disturbed(modules...); warning != "" {
			reason += "; " + warning // profiles from a busy machine may be why
		}
		return temporal.NewNonRetryableApplicationError(reason, TypeMisfit, nil)
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
}

// ReconcileInput is the input of Reconcile.
type ReconcileInput struct {
	Desired []placement.Slot
	Actual  []placement.Slot
}

// Reconcile reports what to start, keep and stop.
func (*Planning) Reconcile(_ context.Context, in ReconcileInput) (placement.Changes, error) {
	return placement.Reconcile(in.Desired, in.Actual), nil
}

// keepSearches bounds how many joint searches are remembered.
const keepSearches = 16

// searches for plans of several services together, the latest last. What one of
// them has found is kept for the others, so that all get parts of the same plan
// and it is searched for once.
type searches struct {
	mu  sync.Mutex
	all []*search
}

// search is one, under way or done.
type search struct {
	key   string
	done  chan struct{}
	plans map[string]scheduler.Plan // by service; nil when it was given up
}

// plan is the plan of a service, beside the others that it is planned with. The
// error is that of ctx.
func (s *searches) plan(ctx context.Context, in PlanInput, limits scheduler.Limits) (scheduler.Plan, error) {
	specs := append([]scheduler.Spec{in.Spec}, in.Beside...)
	if len(in.Beside) == 0 {
		return scheduler.Solve(specs, in.Fleet, limits)[0], nil
	}
	slices.SortFunc(specs, func(a, b scheduler.Spec) int { return cmp.Compare(a.Name(), b.Name()) })
	key, err := json.Marshal(PlanInput{Beside: specs, Fleet: in.Fleet})
	if err != nil {
		return scheduler.Plan{}, err
	}
	for {
		one, own := s.enter(string(key))
		if own {
			s.solve(ctx, one, specs, in.Fleet, limits)
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			return scheduler.Plan{}, ctx.Err()
		}
		if p, ok := one.plans[in.Spec.Name()]; ok {
			return p, nil
		}
		if ctx.Err() != nil {
			return scheduler.Plan{}, ctx.Err()
		}
	}
}

// enter finds the search, or begins it, which then is for the caller to make.
func (s *searches) enter(key string) (one *search, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.all, func(one *search) bool { return one.key == key }); i >= 0 {
		return s.all[i], false
	}
	one = &search{key: key, done: make(chan struct{})}
	s.all = append(s.all, one)
	if len(s.all) > keepSearches {
		s.all = slices.Delete(s.all, 0, 1)
	}
	return one, true
}

// solve makes the search. One that ends because its caller gives up, or before it has found
// a plan, is forgotten: the next caller makes it again.
func (s *searches) solve(ctx context.Context, one *search, specs []scheduler.Spec, fleet scheduler.Fleet, limits scheduler.Limits) {
	defer close(one.done)
	found := scheduler.Solve(specs, fleet, limits)
	if ctx.Err() != nil || slices.ContainsFunc(found, scheduler.Plan.Unfinished) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(other *search) bool { return other == one })
	}
	if ctx.Err() != nil {
		return
	}
	one.plans = map[string]scheduler.Plan{}
	for i, p := range found {
		one.plans[specs[i].Name()] = p
	}
}
