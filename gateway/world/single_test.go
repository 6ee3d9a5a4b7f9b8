package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults that come together may delay any request until its gateway gives it up, and so hide
// that it was lost. So single ones happen once the fleet is whole again, under load: an owner
// is replaced, or one connection is cut. Requests may be late then, or refused, but none is
// given up as lost (forgotten).

const singleFaults = 8

// disturbOnce has single faults happen, one after the other.
func (w *world) disturbOnce() {
	if w.faults.none() || !w.ready() {
		return
	}
	r := random(w.seed, "single faults")
	faults := singleFaults
	if w.onlyStreams {
		faults = 2
	}
	for range faults {
		for _, s := range w.services {
			draw := r.Uint64()
			w.ends.Go(func() { w.askTogether(s, draw) })
		}
		w.pause(between(r, 1, 2*w.duration))
		w.single(r)
		w.pause(time.Second)
	}
	w.pause(2 * time.Second) // patience
}

// askTogether sends as many requests as two batches hold, within the time of two.
func (w *world) askTogether(s *service, draw uint64) {
	r := random(w.seed, fmt.Sprint("together", s.name, draw))
	for i := range 2 * s.batch {
		one := random(w.seed, fmt.Sprint("together", s.name, draw, i))
		w.ends.Go(func() { w.ask(one, s, 0, 0, false) })
		w.pause(between(r, 1, 2*w.duration/time.Duration(s.batch)))
	}
}

// single replaces an owner or cuts one connection.
func (w *world) single(r *rand.Rand) {
	w.history.fault()
	if n := len(w.dispatchers); n > 0 && r.IntN(2) == 0 {
		w.replaceOwner(w.dispatchers[r.IntN(n)], w.services[r.IntN(len(w.services))])
		return
	}
	all := w.processes()
	one := all[r.IntN(len(all))]
	if links := one.connections(); len(links) > 0 {
		l := links[r.IntN(len(links))]
		w.history.note("a connection of %s and %s is cut", l.a.name, l.b.name)
		l.cut()
	}
}

// replaceOwner has a dispatcher own a service by an epoch that is higher than any before.
func (w *world) replaceOwner(d *dispatcherProcess, s *service) {
	w.mu.Lock()
	// The fleet remembers the highest of all owners, of those that are gone, too.
	for _, other := range w.dispatchers {
		if other.Server == nil {
			continue
		}
		for _, epoch := range other.Owns() {
			w.epoch = max(w.epoch, epoch)
		}
	}
	next, own := w.nextEpoch(), d.Server
	w.mu.Unlock()
	if d.alive() {
		w.history.note("%s owns %s by epoch %d", d.name, s.name, next)
		own.Own(s.name, next)
	}
}
