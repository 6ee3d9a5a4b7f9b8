package world

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

var (
	first = flag.Uint64("first", 1, "the first seed of TestSeeds")
	count = flag.Int("seeds", 25, "how many seeds TestSeeds plays")
	story = flag.Bool("story", false, "print what has happened in every seed")
	again = flag.Bool("again", false, "play every seed twice, and report how many have gone the same way")
)

// TestSeeds plays seeds one after the other, and reports what there was in them.
func TestSeeds(t *testing.T) {
	var all tally
	began := time.Now()
	for seed := *first; seed < *first+uint64(*count); seed++ {
		one := play(t, seed, draw)
		if *again && play(t, seed, draw).digest == one.digest {
			all.same++
		}
		all.add(one)
	}
	if *again {
		t.Logf("%d of them have gone the same way twice, event by event", all.same)
	}
	t.Logf("%d seeds from %d on: %d requests, %d faults, %d changes in %.1f s", *count, *first, all.requests, all.faults, all.changes, time.Since(began).Seconds())
}

// TestKeptSeeds plays those again that have failed once.
func TestKeptSeeds(t *testing.T) {
	for file, draw := range map[string]func(uint64, func() string) *world{"seeds.txt": draw, "streams.txt": drawStreams} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			var seed uint64
			if _, err := fmt.Sscan(line, &seed); err == nil {
				play(t, seed, draw)
			}
		}
	}
}

func play(t *testing.T, seed uint64, draw func(uint64, func() string) *world) (sum tally) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		var w *world
		synctest.Test(t, func(t *testing.T) {
			w = draw(seed, t.TempDir)
			w.live()
		})
		h := &w.history
		sum = h.tally
		sum.requests = len(h.requests)
		if len(h.violations) > 0 {
			how := "-run TestSeeds -first %d -seeds 1"
			switch {
			case w.onlyStreams:
				how = "-run TestStreamSeeds -streams.first %d -streams 1"
			case w.temporal != nil:
				how = "-run TestWorkflowSeeds -workflows.first %d -workflows 1"
			}
			t.Errorf("seed %d: %s\nplay it again: go test ./gateway/world -story "+how, seed, strings.Join(h.violations, "\n"), seed)
		}
		sum.digest = h.digest
		t.Logf("what has happened adds up to %x", h.digest)
		if *story {
			t.Logf("%s\n%d requests: %v %v", strings.Join(h.log, "\n"), len(h.requests), h.outcomes, h.codes)
		}
	})
	return sum
}

// draw makes a world of a seed.
func draw(seed uint64, disk func() string) *world {
	r := random(seed, "world")
	w := &world{seed: seed, began: time.Now(), epochs: map[string][]heardEpoch{}, dialled: map[string]int{}, joined: map[*server.Server]int{}, shared: r.IntN(4) > 0, deletes: r.IntN(3) == 0}
	w.life, w.cancel = context.WithCancel(context.Background())
	w.history = history{
		world: w, requests: map[int]*request{}, harmed: map[int]map[wire.Code]bool{}, computed: map[string]int{}, killed: map[string]int{},
		outcomes: map[gateway.Outcome]int{}, codes: map[wire.Code]int{},
	}
	w.trouble = between(r, time.Second, 4*time.Second)
	w.far = between(r, 20*time.Microsecond, 300*time.Microsecond) // a margin of 2 ms is kept for four of them
	w.duration = between(r, time.Millisecond, 8*time.Millisecond)
	w.load = between(r, time.Millisecond, 60*time.Millisecond)
	some := func(p float64) float64 {
		if r.IntN(3) > 0 {
			return 0
		}
		return p * r.Float64()
	}
	if r.IntN(10) > 0 { // else nothing is wrong at all
		w.faults = faults{load: some(0.2), slow: some(0.1), crash: some(0.05), panics: some(0.02), wrong: some(0.05), poison: some(0.02)}
		if r.IntN(4) > 0 {
			w.faults.every = between(r, 50*time.Millisecond, 600*time.Millisecond)
		}
	}
	for i := range 1 + r.IntN(3) {
		w.gateways = append(w.gateways, &gatewayProcess{process: newProcess("gateway", i)})
	}
	if w.shared {
		for i := range 1 + r.IntN(3) {
			w.dispatchers = append(w.dispatchers, &dispatcherProcess{process: newProcess("dispatcher", i)})
		}
	}
	for i := range 1 + r.IntN(3) {
		w.hosts = append(w.hosts, &hostProcess{process: newProcess("host", i)})
	}
	for i := range 1 + r.IntN(2) {
		w.services = append(w.services, w.service(fmt.Sprint("s", i), r))
	}
	more := random(seed, "surroundings")
	w.claims = w.shared && more.IntN(3) == 0
	w.clocks, w.outages = more.IntN(3) > 0, more.IntN(3) == 0
	w.shelf.files = map[string]string{}
	w.control.name = "control"
	if more.IntN(4) == 0 {
		w.disk, w.fills = disk(), true
	}
	if !w.faults.none() && more.IntN(3) == 0 {
		w.faults.hang, w.faults.nan = 0.01*more.Float64(), 0.02*more.Float64()
	}
	if w.hurried = w.shared && w.faults.every == 0 && more.IntN(2) == 0; w.hurried {
		w.trouble = 4 * time.Second
	}
	for _, s := range w.services {
		s.films = more.IntN(3) == 0
		s.kinds = random(seed, "kinds of "+s.name).IntN(2) == 0
	}
	return w
}

var shapes = [][][]int{{{}}, {{}, {0}}, {{}, {0}, {1}}, {{}, {0}, {0}, {1, 2}}}

func (w *world) service(name string, r *rand.Rand) *service {
	s := &service{world: w, name: name, above: shapes[r.IntN(len(shapes))], batch: 1 + r.IntN(8), rng: random(w.seed, name), running: map[string]*executor{}, turn: make(chan struct{}, 1), answers: map[int]func(float32) float32{}}
	s.slo = time.Duration(len(s.above))*(4*w.duration+4*w.far) + between(r, 20*time.Millisecond, 200*time.Millisecond)
	to := spec{dispatch: policies[r.IntN(len(policies))]}
	for range s.above {
		to.versions = append(to.versions, r.IntN(100))
		to.machines = append(to.machines, 1+r.IntN(2))
	}
	s.spec, s.before = to, to
	s.begin()
	s.rate = (0.1 + 2*r.Float64()) * float64(s.batch) / w.duration.Seconds() / 2
	s.rate = min(s.rate, 150)
	return s
}

// live plays a world to its end.
func (w *world) live() {
	if w.clocks {
		w.setClocks()
	}
	for _, d := range w.dispatchers {
		w.startDispatcher(d)
	}
	for _, h := range w.hosts {
		w.startHost(h)
		w.pause(time.Microsecond)
	}
	for _, g := range w.gateways {
		w.startGateway(g)
		w.pause(time.Microsecond)
	}
	if len(w.dispatchers) > 0 && !w.claims {
		w.dispatchers[0].Own("", w.nextEpoch())
	}
	for _, s := range w.services {
		for s.declare(s.spec) != nil && w.pause(10*time.Millisecond) { // its engines may not load
		}
	}
	for _, s := range w.services {
		w.controls.Go(s.run)
		w.ends.Go(func() { w.callers(s) })
	}
	if w.fills {
		w.ends.Go(w.fillDisks)
	}
	if w.outages {
		w.ends.Go(w.takeControl)
	}
	if w.faults.every > 0 {
		w.ends.Go(w.disturb)
	}
	w.pause(w.trouble)
	w.settle()
	w.disturbOnce()
	w.probe()
	w.end()
}

// callers sends requests until faults cease.
func (w *world) callers(s *service) {
	r := random(w.seed, "callers of "+s.name)
	for w.troubled() && w.pause(time.Duration(r.ExpFloat64()/s.rate*float64(time.Second))) {
		var leaves, hurried time.Duration
		switch r.IntN(12) {
		case 0:
			leaves = between(r, 1, s.slo)
		case 1:
			hurried = between(r, 1, s.slo)
		}
		one := random(w.seed, fmt.Sprint(s.name, r.Uint64()))
		w.ends.Go(func() { w.ask(one, s, leaves, hurried, false) })
	}
}

// disturb kills, stops and cuts.
func (w *world) disturb() {
	r := random(w.seed, "trouble")
	for w.pause(time.Duration(r.ExpFloat64()*float64(w.faults.every))) && w.troubled() {
		back := between(r, 10*time.Millisecond, time.Second)
		w.history.fault()
		all := w.processes()
		one := all[r.IntN(len(all))]
		switch n := r.IntN(10); {
		case n < 3:
			links := one.connections()
			if len(links) == 0 {
				break
			}
			w.history.note("connections of %s are cut", one.name)
			for _, l := range links {
				if r.IntN(2) == 0 {
					l.cut()
				}
			}
		case n < 5:
			w.history.note("the network of %s stands still for %v", one.name, back)
			for _, l := range one.connections() {
				l.stop(back)
			}
		case n < 6:
			w.history.note("%s is stopped for %v", one.name, back)
			one.stop(back)
		case n < 8 && one.alive():
			w.kill(one)
			w.ends.Go(func() {
				if w.pause(back) {
					w.revive(one)
				}
			})
		case len(w.dispatchers) > 0 && !w.claims:
			d := w.dispatchers[r.IntN(len(w.dispatchers))]
			s := w.services[r.IntN(len(w.services))]
			w.replaceOwner(d, s)
		}
	}
}

func (w *world) processes() (all []*process) {
	for _, g := range w.gateways {
		all = append(all, &g.process)
	}
	for _, d := range w.dispatchers {
		all = append(all, &d.process)
	}
	for _, h := range w.hosts {
		all = append(all, &h.process)
	}
	return all
}

func (w *world) kill(p *process) {
	for _, g := range w.gateways {
		if &g.process == p {
			w.killGateway(g)
		}
	}
	for _, h := range w.hosts {
		if &h.process == p {
			w.killHost(h)
		}
	}
	for _, d := range w.dispatchers {
		if &d.process == p {
			w.history.note("%s is killed", d.name)
			d.down()
		}
	}
}

func (w *world) revive(p *process) {
	if p.alive() {
		return
	}
	for _, g := range w.gateways {
		if &g.process == p {
			w.startGateway(g)
		}
	}
	for _, h := range w.hosts {
		if &h.process == p {
			w.startHost(h)
		}
	}
	for _, d := range w.dispatchers {
		if &d.process == p {
			w.startDispatcher(d)
		}
	}
}

// settle ends all faults, and waits until the fleet is whole again.
func (w *world) settle() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.history.note("all faults cease")
	w.pause(2 * time.Second) // what was stopped and killed comes back
	w.controls.Wait()
	for _, s := range w.services {
		if w.temporal != nil {
			if !w.temporal.serves(s) {
				return
			}
			continue
		}
		for tries := 0; !s.whole(); tries++ {
			if err := s.change(s.spec); err != nil && tries > 5 {
				w.history.violate("%s cannot be served although all is well: %v", s.name, err)
				return
			}
		}
	}
	for range 100 {
		if w.ready() {
			break
		}
		w.pause(100 * time.Millisecond)
	}
	w.pause(2 * time.Second) // patience with requests that were lost
	if w.faults.hang > 0 {
		w.pause(2 * time.Second) // and with engines that hang
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

func (w *world) ready() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gateways {
		if !g.ready {
			return false
		}
	}
	return true
}

// probe sends requests at a low rate to a healthy fleet, all of which must be answered in time.
func (w *world) probe() {
	if !w.ready() {
		w.history.violate("a gateway does not come back")
		return
	}
	r := random(w.seed, "probes")
	probes := 12
	if w.onlyStreams {
		probes = 2
	}
	for range probes {
		for _, s := range w.services {
			w.ends.Go(func() { w.ask(r, s, 0, 0, true) })
			w.pause(2 * s.slo)
		}
	}
	w.pause(2 * time.Second)
}

// end takes the fleet down and checks that nothing is left anywhere.
func (w *world) end() {
	if w.temporal != nil {
		w.temporal.remove()
	}
	w.settled()
	w.cancel()
	for _, g := range w.gateways {
		_ = g.Close()
	}
	for _, p := range w.processes() {
		p.down()
	}
	w.ends.Wait()
}

// settled holds that every request has ended and nothing is held anywhere.
func (w *world) settled() {
	h := &w.history
	synctest.Wait() // nothing is noted any more
	h.mu.Lock()
	requests, computed := maps.Clone(h.requests), maps.Clone(h.computed)
	h.mu.Unlock()
	for _, r := range requests {
		if r.over.IsZero() {
			h.violate("request %d never ended", r.id)
		}
	}
	h.chains(requests)
	for what, n := range computed {
		if n > 1 && w.faults.none() {
			h.violate("%s was computed %d times, although nothing was wrong", what, n)
		}
	}
	for _, g := range w.gateways {
		if g.accepted != g.finished {
			h.violate("%s has accepted %d requests and ended %d", g.name, g.accepted, g.finished)
		}
		counted := g.counted()
		if a, e, n := counted["harpagon_requests_accepted_total"], counted["harpagon_requests_ended_total"], counted["harpagon_requests_in_flight"]; a != float64(g.accepted) || e != a || n != 0 {
			h.violate("%s reports %v requests accepted, %v ended and %v in flight; it has accepted %d", g.name, a, e, n, g.accepted)
		}
		for _, s := range w.services {
			if n := g.Measures(s.name).InFlight; n != 0 {
				h.violate("%s has %d requests of %s in flight", g.name, n, s.name)
			}
			ended := map[gateway.Outcome]int64{}
			for _, r := range requests {
				if r.gateway == g && r.life == g.life && r.service == s && r.ended > 0 {
					ended[r.outcome]++
				}
			}
			for outcome, n := range g.Totals(s.name) {
				if n != ended[outcome] && !w.deletes { // it forgets what is deleted
					h.violate("%s counts %d requests of %s that ended %v, and there were %d", g.name, n, s.name, outcome, ended[outcome])
				}
			}
		}
	}
	for _, d := range w.dispatchers {
		w.holdsNothing(d.name, d.Server, "although all requests have ended")
	}
}

// holdsNothing holds that no item is in a dispatcher.
func (w *world) holdsNothing(name string, own *server.Server, why string) {
	for _, s := range w.services {
		for _, l := range own.Loads(s.name) {
			if l.Held != 0 || l.Waiting != 0 {
				w.history.violate("%s holds %d items of %s/%s, %d of them known to the policy, %s: %s", name, l.Held, s.name, l.Module, l.Waiting, why, l.Policy)
			}
		}
	}
}

// counted are the gateway's metrics by name, of all services together.
func (g *gatewayProcess) counted() map[string]float64 {
	all := map[string]float64{}
	families, err := g.metrics.Registry().Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			all[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}
