package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler"
)

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

// solve makes the search. One that ends because its caller gives up, or before it has
// found a plan, is forgotten: the next who asks makes it anew.
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
