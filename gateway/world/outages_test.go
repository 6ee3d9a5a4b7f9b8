package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Control is away at times, longer than any timeout of other processes: nothing is changed or
// replaced then, and a gateway that starts receives nothing. What is declared meanwhile waits,
// and the last of it is carried out afterwards. Control may repeat its last order, because the
// acknowledgement was lost; and an old order may reach a gateway late.

// orders are those that control has given to gateways for a service.
type orders struct {
	deployment *placement.Deployment
	gateways   []livingGateway // who got it
	released   []string        // executors, when it had been installed
}

// outage is how long control will be away.
func (w *world) outage() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		return 0
	}
	return time.Until(w.away)
}

// takeControl takes control away again and again.
func (w *world) takeControl() {
	r := random(w.seed, "outages")
	for w.pause(between(r, 50*time.Millisecond, 2*time.Second)) && w.troubled() {
		d := between(r, 200*time.Millisecond, 5*time.Second)
		w.history.fault()
		w.history.note("control is away for %v", d)
		w.mu.Lock()
		w.away = time.Now().Add(d)
		w.mu.Unlock()
		w.awaitControl(w.life)
	}
}

// awaitControl returns when control is there.
func (w *world) awaitControl(ctx context.Context) {
	for left := w.outage(); left > 0 && ctx.Err() == nil; left = w.outage() {
		_ = osutil.SleepTimer(ctx, min(left, 50*time.Millisecond))
	}
}

// waitForControl has callers declare meanwhile, and control catch up.
func (s *service) waitForControl() {
	w := s.world
	s.lock()
	wanted := s.spec
	s.unlock()
	for left := w.outage(); left > 0 && w.pause(min(left, 100*time.Millisecond)); left = w.outage() {
		if s.rng.IntN(12) == 0 {
			wanted = s.otherThan(wanted)
			s.asked = &wanted
			w.history.note("%s: %v is declared, and waits", s.name, wanted)
		}
	}
	s.giveAgain()
}

// catchUp carries out what was declared while control was away; false where it failed.
func (s *service) catchUp() bool {
	if s.asked != nil && s.change(*s.asked) == nil {
		s.asked = nil
	}
	return s.asked == nil
}

// giveAgain gives the orders of the last two changes once more, the older one last, and the
// one to delete the service, if it was applied again since.
func (s *service) giveAgain() {
	s.lock()
	defer s.unlock()
	w := s.world
	if s.life > 1 && s.current != nil {
		s.deleteLate()
	}
	for _, o := range slices.Backward(s.given) {
		for _, g := range o.gateways {
			if !w.same(g.process, g.own) {
				continue // another process has its place, and gets orders of its own
			}
			before, served := g.own.Deployment(s.name)
			w.history.note("%s: %s is given generation %d once more", s.name, g.process.name, o.deployment.Generation)
			ctx, cancel := context.WithTimeout(w.life, time.Second)
			err := g.own.Install(ctx, *o.deployment)
			_ = g.own.Release(ctx, s.name, o.released)
			cancel()
			after, _ := g.own.Deployment(s.name)
			switch {
			case !served && after.Generation != 0 && o.deployment.Life < s.life:
				w.history.violate("%s serves %s again, which was deleted", g.process.name, s.name)
			case served && after.Age().Before(before.Age()):
				w.history.violate("%s went back from generation %d of %s to %d", g.process.name, before.Generation, s.name, after.Generation)
			case served && err != nil && before.Generation == o.deployment.Generation && w.same(g.process, g.own):
				w.history.violate("%s refuses generation %d of %s, which it has: %v", g.process.name, before.Generation, s.name, err)
			}
		}
	}
}

// deleteLate repeats the last deletion to gateways: what was applied since stays.
func (s *service) deleteLate() {
	w := s.world
	ctx, cancel := context.WithTimeout(w.life, time.Second)
	defer cancel()
	for _, g := range w.living() {
		before, _ := g.own.Deployment(s.name)
		_ = g.own.Remove(ctx, s.name, placement.Age{Life: s.life})
		if _, serves := g.own.Deployment(s.name); before.Life == s.life && !serves && w.same(g.process, g.own) {
			w.history.violate("%s serves %s no more, since an earlier deletion arrived late", g.process.name, s.name)
		}
	}
}

// hide draws a gateway that control does not see while it deletes the service, as one that
// is cut off from Temporal alone.
func (s *service) hide() {
	w := s.world
	r := random(w.seed, fmt.Sprint("out of sight of ", s.name, s.life))
	if all := w.living(); w.faults.every > 0 && len(all) > 0 && r.IntN(3) == 0 {
		g := all[r.IntN(len(all))]
		s.unseen = g.own
		w.history.note("%s is out of sight", g.process.name)
	}
}

// show has the gateway learn what became of the service, as it does when it looks for
// itself.
func (s *service) show() {
	if s.unseen == nil {
		return
	}
	w := s.world
	ctx, cancel := context.WithTimeout(w.life, time.Second)
	defer cancel()
	_ = s.unseen.Remove(ctx, s.name, placement.Age{Life: s.life})
	if _, serves := s.unseen.Deployment(s.name); serves {
		w.history.violate("%s is served, although its gateway has learned that it is deleted", s.name)
	}
	s.unseen = nil
}

// note keeps the orders of the last two changes. The service is locked.
func (s *service) note(o orders) {
	s.given = append(s.given, o)
	s.given = s.given[max(0, len(s.given)-2):]
}
