package world

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

var (
	firstWorkflows = flag.Uint64("workflows.first", 1, "the first seed of TestWorkflowSeeds")
	countWorkflows = flag.Int("workflows", 0, "how many seeds TestWorkflowSeeds plays")
)

// TestWorkflowSeeds plays worlds whose control is the workflows of the services and of the
// fleet, with the activities that they call in production.
func TestWorkflowSeeds(t *testing.T) {
	if *countWorkflows == 0 {
		t.Skip("Temporal's test environment ends by itself in some of these worlds; play some with -workflows 10")
	}
	var all tally
	began := time.Now()
	for seed := *firstWorkflows; seed < *firstWorkflows+uint64(*countWorkflows); seed++ {
		all.add(play(t, seed, drawWorkflows))
	}
	t.Logf("%d seeds from %d on: %d requests, %d faults, %d changes in %.1f s", *countWorkflows, *firstWorkflows, all.requests, all.faults, all.changes, time.Since(began).Seconds())
}

// drawWorkflows makes a world with workflows. Hosts that are lost are missed after some ten
// seconds, so faults last for longer than in other worlds, and are fewer.
func drawWorkflows(seed uint64, disk func() string) *world {
	w := draw(seed, disk)
	r := random(seed, "workflows")
	w.temporal = newTemporal(w)
	w.shared, w.claims, w.deletes, w.dispatchers = false, false, false, nil
	if w.disk == "" {
		w.disk, w.fills = disk(), false
	}
	w.trouble = between(r, 10*time.Second, 60*time.Second)
	if w.faults.every > 0 {
		w.faults.every *= 10
	}
	for _, s := range w.services {
		s.rate = min(s.rate, 5+20*r.Float64())
	}
	return w
}

// learn notes what a generation answers that is about to serve.
func (w *world) learn(d placement.Deployment) {
	for _, s := range w.services {
		if s.name != d.Name() {
			continue
		}
		var of spec
		for _, m := range d.Pipeline.Modules {
			var version int
			_, _ = fmt.Sscanf(m.Model, "v%d", &version)
			of.versions = append(of.versions, version)
		}
		s.mu.Lock()
		s.answers[d.Generation] = s.sums(of)
		s.mu.Unlock()
	}
}

// declaration is the spec as it is applied.
func (s *service) declaration(of spec) scheduler.Spec {
	p := s.pipeline(of)
	s.profile(&p)
	for i := range p.Modules {
		p.Modules[i].Fanout = 1
	}
	return scheduler.Spec{Pipeline: &p, Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.1}}}
}

// profile adds the durations of all batch sizes to every module's profile.
func (s *service) profile(p *pipelines.Pipeline) {
	for i := range p.Modules {
		for batch := 1; batch <= s.batch; batch++ {
			p.Modules[i].Profile.Points = append(p.Modules[i].Profile.Points,
				pipelines.Point{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: s.world.duration + time.Duration(batch)})
		}
	}
}

// apply declares a spec; it returns when that is accepted.
func (t *temporalServer) apply(s *service, to spec) error {
	w := t.world
	w.history.changed()
	ctx, stop := context.WithTimeout(w.life, 20*time.Second)
	defer stop()
	reply, err := t.commands.Apply(ctx, workflows.ApplyRequest{Spec: s.declaration(to)})
	w.history.note("%s: %v is applied as generation %d: %v", s.name, to, reply.Generation, err)
	if err == nil {
		s.spec, s.generation, s.refused = to, reply.Generation, false
	}
	return err
}

// overreach applies what cannot be planned. What serves must go on unchanged.
func (t *temporalServer) overreach(s *service) {
	w := t.world
	ctx, stop := context.WithTimeout(w.life, 20*time.Second)
	defer stop()
	if status, err := t.commands.Status(ctx, s.name); err != nil || status.Serving == 0 {
		return // nothing to go on with
	}
	too := s.declaration(s.spec)
	too.Pipeline.Rate = 1e6
	reply, err := t.commands.Apply(ctx, workflows.ApplyRequest{Spec: too})
	w.history.note("%s: too much is applied as generation %d: %v", s.name, reply.Generation, err)
	s.refused = s.refused || err == nil
}

// operate changes a service as an operator does, until faults cease.
func (t *temporalServer) operate(s *service) {
	w := t.world
	for w.pause(between(s.rng, 200*time.Millisecond, 8*time.Second)) && w.troubled() {
		switch s.rng.IntN(8) {
		case 0:
			t.overreach(s)
			continue
		case 1:
		default:
			_ = t.apply(s, s.otherThan(s.spec))
			continue
		}
		w.history.changed()
		ctx, stop := context.WithTimeout(w.life, 20*time.Second)
		reply, err := t.commands.Rollback(ctx, s.name, workflows.RollbackRequest{})
		stop()
		w.history.note("%s: rolled back as generation %d: %v", s.name, reply.Generation, err)
		if err == nil {
			s.generation, s.refused = max(s.generation, reply.Generation), false
		}
	}
}

// serves waits until what was declared last, and was not refused, serves, in as long as a
// change may take whose hosts are missed, and holds that it does.
func (t *temporalServer) serves(s *service) bool {
	ctx, stop := context.WithTimeout(t.world.life, 5*time.Minute)
	defer stop()
	for {
		generation := s.generation
		if s.refused {
			generation = 0
		}
		_, err := t.commands.WaitServing(ctx, s.name, generation, nil)
		if err == nil {
			return true
		}
		if ctx.Err() != nil || !t.world.pause(time.Second) {
			status, _ := t.commands.Status(t.world.life, s.name)
			t.world.history.violate("%s is not served although all is well: %v\n%s", s.name, err, status.Describe())
			return false
		}
	}
}

// remove deletes all services, and holds that nothing of them is left in the fleet.
func (t *temporalServer) remove() {
	w := t.world
	ctx, stop := context.WithTimeout(w.life, 5*time.Minute)
	defer stop()
	for _, s := range w.services {
		if _, err := t.commands.Delete(ctx, s.name, "the world ends"); err != nil {
			w.history.violate("%s is not deleted: %v", s.name, err)
		}
	}
	view, err := t.commands.Fleet(ctx)
	if err != nil || len(view.Reserved) > 0 || len(view.Services) > 0 || len(view.Hosts) != len(w.hosts) || len(view.Gateways()) != len(w.gateways) {
		w.history.violate("the fleet has %d hosts, %d gateways, reservations %v and services %v after all services were deleted: %v", len(view.Hosts), len(view.Gateways()), view.Reserved, view.Services, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.running {
		e.CancelWorkflow()
	}
}
