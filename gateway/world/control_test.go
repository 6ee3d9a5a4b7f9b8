package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
)

// spec is one version of a service's declaration.
type spec struct {
	versions []int // of modules
	machines []int
	dispatch string
}

// service is one that control keeps serving; it does what the workflow does, one change
// after the other.
type service struct {
	world *world
	name  string
	slo   time.Duration
	batch int
	above [][]int // of each module, by their places; none is the pipeline's input
	rate  float64
	rng   *rand.Rand
	films bool // its requests are frames of streams, and its last module keeps state
	kinds bool // its streams are of two kinds

	turn       chan struct{} // has a token for who changes what follows; a mutex would stop virtual time
	life       int
	generation int
	current    *placement.Deployment // nil where it is deleted
	running    map[string]*executor
	spec       spec
	before     spec
	refused    bool // what was applied since cannot be carried out

	unseen *gateway.Gateway // by control, while the service is deleted; nil for none

	given []orders // of the last two changes
	asked *spec    // while control was away; nil once it is carried out

	mu        sync.Mutex
	answers   map[int]func(float32) float32 // by generation
	installed int                           // the generation that all gateways had last
}

func (s *service) lock()   { s.turn <- struct{}{} }
func (s *service) unlock() { <-s.turn }

// executor is one that was started.
type executor struct {
	slot  placement.Slot
	host  *hostProcess
	stop  context.CancelFunc
	ended chan struct{}
}

func (e *executor) gone() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// answer is what a generation answers to a value.
func (s *service) answer(generation int, value float32) (float32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.answers[generation]
	if f == nil {
		return 0, false
	}
	return f(value), true
}

// served is the generation that all gateways had last.
func (s *service) served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installed
}

// generationsApart is how many generations a life of a service has at most. Where services
// are deleted the later life has the lower ones, which no other has: a real one begins with 1
// again, and then an answer would not show which of two made it.
const generationsApart, lastLife = 1000, 100

// begin begins another life.
func (s *service) begin() {
	s.life++
	s.generation = 0
	if s.world.deletes {
		s.generation = (lastLife - s.life) * generationsApart
	}
}

// age is the age of a generation; 0 of none.
func (s *service) age(generation int) placement.Age {
	if !s.world.deletes || generation == 0 {
		return placement.Age{Life: min(generation, 1), Generation: generation}
	}
	return placement.Age{Life: lastLife - generation/generationsApart, Generation: generation}
}

// later is the one of two generations that was made later.
func (s *service) later(one, other int) int {
	if s.age(one).Before(s.age(other)) {
		return other
	}
	return one
}

func (s *service) sums(of spec) func(float32) float32 {
	return func(x float32) float32 {
		out := make([]float32, len(s.above))
		for i, above := range s.above {
			out[i] = float32(of.versions[i])
			for _, k := range above {
				out[i] += out[k]
			}
			if len(above) == 0 {
				out[i] += x
			}
		}
		return out[len(out)-1]
	}
}

func (s *service) pipeline(of spec) pipelines.Pipeline {
	p := pipelines.Pipeline{Name: s.name, SLO: s.slo, Rate: s.rate, Dispatch: of.dispatch,
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: moduleName(len(s.above) - 1), Port: "y"}}},
	}
	for i, above := range s.above {
		m := pipelines.Module{Name: moduleName(i), Model: fmt.Sprint("v", of.versions[i])}
		if s.world.disk != "" {
			m.Content = []pipelines.File{s.world.shelf.file(m.Model, of.versions[i])}
		}
		for k, a := range above {
			m.Inputs = append(m.Inputs, pipelines.Binding{Name: inputName(k), From: pipelines.Ref{Module: moduleName(a), Port: "y"}})
		}
		if len(above) == 0 {
			m.Inputs = []pipelines.Binding{{Name: inputName(0), From: pipelines.Ref{Port: "x"}}}
		}
		p.Modules = append(p.Modules, m)
	}
	if s.films {
		last := moduleName(len(s.above) - 1)
		if p.Stream, p.Rate = filmed, filmed.Total(); s.kinds {
			p.Stream, p.Kinds = pipelines.Stream{}, filmedOfKinds
		}
		p.Modules[len(s.above)-1].State = true
		p.Outputs = append(p.Outputs, pipelines.Output{Name: "h", From: pipelines.Ref{Module: last, Port: "h"}})
	}
	return p
}

// filmed are streams whose frames come as they like, nearly.
var filmed = pipelines.Stream{Rate: 500, Count: 64, Jitter: 1900 * time.Microsecond}

// filmedOfKinds are as many of two kinds, with as many frames.
var filmedOfKinds = []pipelines.Stream{
	{Kind: "near", Rate: 600, Count: 32, Jitter: 1600 * time.Microsecond},
	{Kind: "far", Rate: 400, Count: 32, Jitter: 2400 * time.Microsecond},
}

// frame draws one of a camera at a gateway; cameras of other gateways have other names. Of three, the last gives
// its kind as it likes.
func (s *service) frame(r *rand.Rand, gateway string) wire.Frame {
	camera := r.IntN(3)
	f := wire.Frame{Stream: fmt.Sprint(gateway, "/camera", camera), First: r.IntN(40) == 0, Last: r.IntN(40) == 0}
	switch {
	case !s.kinds:
	case camera < anyKind:
		f.Kind = filmedOfKinds[camera].Kind
	default:
		f.Kind = filmedOfKinds[r.IntN(40)/39].Kind
	}
	return f
}

// anyKind is the camera that does not keep to one kind.
const anyKind = 2

func moduleName(i int) string { return fmt.Sprint("m", i) }

// deployment places a generation: what stays the same keeps its executors.
func (s *service) deployment(of spec) (placement.Deployment, []placement.Slot, error) {
	w := s.world
	var living []*hostProcess
	for _, h := range w.hosts {
		if h.alive() {
			living = append(living, h)
		}
	}
	if len(living) == 0 {
		return placement.Deployment{}, nil, fmt.Errorf("no host")
	}
	d := placement.Deployment{Generation: s.generation, Life: s.life, Pipeline: s.pipeline(of)}
	if s.world.faults.hang > 0 {
		s.profile(&d.Pipeline)
	}
	var fresh []placement.Slot
	window := s.world.duration
	for i := range s.above {
		name := moduleName(i)
		d.Plan.Modules = append(d.Plan.Modules, plan.Module{Name: name, Budget: 3 * window, Groups: []plan.Group{{
			Hardware: "cpu", Batch: s.batch, Concurrency: 1, Duration: window, Machines: float64(of.machines[i]), Window: window, Period: window,
		}}})
		var old []*executor
		if s.current != nil && s.current.Pipeline.Modules[i].Model == d.Pipeline.Modules[i].Model {
			for _, slot := range s.current.Slots {
				if e := s.running[slot.Executor]; slot.Module == name && e != nil && !e.gone() && e.host.alive() {
					old = append(old, e)
				}
			}
		}
		for k := range of.machines[i] {
			if k < len(old) {
				d.Slots = append(d.Slots, old[k].slot)
				continue
			}
			h := living[s.rng.IntN(len(living))]
			slot := placement.Slot{
				Executor: s.executorName(name, k), Pipeline: s.name, Module: name, Batch: s.batch,
				Window: window, Duration: window, Hardware: "cpu", Host: h.name, Device: fmt.Sprint("cpu:", s.rng.IntN(3)), Period: window,
			}
			d.Slots = append(d.Slots, slot)
			fresh = append(fresh, slot)
		}
	}
	return d, fresh, nil
}

// executorName is one that no executor has had.
func (s *service) executorName(module string, k int) string {
	name := fmt.Sprintf("%s/%s/%d/%d", s.name, module, s.generation%generationsApart, k)
	if s.life > 1 {
		name += fmt.Sprintf("/%d", s.life)
	}
	return name
}

// start starts an executor on its host.
func (s *service) start(d placement.Deployment, slot placement.Slot) {
	w := s.world
	i := slices.IndexFunc(w.hosts, func(h *hostProcess) bool { return h.name == slot.Host })
	h := w.hosts[i]
	w.mu.Lock()
	host, life := h.Host, h.life
	w.mu.Unlock()
	ctx, stop := context.WithCancel(context.WithValue(life, named{}, slot.Executor))
	e := &executor{slot: slot, host: h, stop: stop, ended: make(chan struct{})}
	s.running[slot.Executor] = e
	w.ends.Go(func() {
		defer close(e.ended)
		w.pause(between(random(w.seed, slot.Executor), 1, time.Millisecond)) // no two at once
		err := host.RunExecutor(ctx, executors.NewTask(d, slot, ""), executors.Observer{})
		w.history.note("executor %s ends: %s", slot.Executor, strings.ReplaceAll(fmt.Sprint(err), w.disk+"/", ""))
	})
}

// living are the gateways that run, with the Gateway of each.
func (w *world) living() (all []livingGateway) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gateways {
		if g.alive() {
			all = append(all, livingGateway{g, g.Gateway})
		}
	}
	return all
}

type livingGateway struct {
	process *gatewayProcess
	own     *gateway.Gateway
}

// same reports whether the process still is that gateway.
func (w *world) same(g *gatewayProcess, own *gateway.Gateway) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return g.Gateway == own && g.alive()
}

// onAll calls all gateways that control sees at once, and returns an error of one that lives.
func (s *service) onAll(patience time.Duration, call func(context.Context, *gateway.Gateway) error) error {
	w := s.world
	ctx, cancel := context.WithTimeout(w.life, patience)
	defer cancel()
	var calls sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, g := range w.living() {
		if g.own == s.unseen {
			continue
		}
		calls.Go(func() {
			if err := call(ctx, g.own); err != nil && w.same(g.process, g.own) {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	return failed
}

// change makes a declaration serve; where that fails, the one before goes on.
func (s *service) change(to spec) error {
	s.lock()
	defer s.unlock()
	w := s.world
	s.generation++
	installed := false
	d, fresh, err := s.deployment(to)
	if err != nil {
		return err
	}
	w.history.note("%s: generation %d with %v", s.name, d.Generation, to)
	w.history.changed()
	for _, slot := range fresh {
		s.start(d, slot)
	}
	if err = s.onAll(4*time.Second, func(ctx context.Context, g *gateway.Gateway) error { return g.Prepare(ctx, d) }); err == nil {
		installed = true
		s.mu.Lock()
		s.answers[d.Generation] = s.sums(to)
		s.mu.Unlock()
		gateways := w.living()
		err = s.onAll(4*time.Second, func(ctx context.Context, g *gateway.Gateway) error { return g.Install(ctx, d) })
		if err == nil {
			s.mu.Lock()
			s.installed = d.Generation
			s.mu.Unlock()
			s.note(orders{deployment: &d, gateways: gateways})
		}
	}
	if err != nil {
		w.history.note("%s: generation %d: %v", s.name, d.Generation, err)
		if !installed {
			for _, slot := range fresh {
				s.running[slot.Executor].stop()
			}
			return err
		}
	}
	s.before, s.spec, s.current = s.spec, to, &d
	s.release(d.Slots)
	return err
}

// release lets executors go that are in no slot.
func (s *service) release(kept []placement.Slot) {
	w := s.world
	var names []string
	for name := range s.running {
		if !slices.ContainsFunc(kept, func(slot placement.Slot) bool { return slot.Executor == name }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	if len(s.given) > 0 {
		s.given[len(s.given)-1].released = names
	}
	err := s.onAll(4*time.Second, func(ctx context.Context, g *gateway.Gateway) error { return g.Release(ctx, s.name, names) })
	if w.faults.every == 0 && w.life.Err() == nil && !w.hurried {
		if err != nil {
			w.history.violate("%s: executors %v are not released although all is well: %v", s.name, names, err)
		}
		w.pause(500 * time.Millisecond)
		for _, name := range names {
			if !s.running[name].gone() {
				w.history.violate("executor %s was released and does not go", name)
			}
		}
	}
	for _, name := range names {
		s.running[name].stop()
		delete(s.running, name)
	}
}

// remove deletes the service.
func (s *service) remove() {
	s.lock()
	defer s.unlock()
	s.world.history.note("%s is deleted", s.name)
	s.world.history.changed()
	since := placement.Age{Life: s.life + 1}
	_ = s.onAll(4*time.Second, func(ctx context.Context, g *gateway.Gateway) error { return g.Remove(ctx, s.name, since) })
	s.current = nil
	s.release(nil)
	s.begin()
}

// enter has a gateway that has just started serve what the others do.
func (s *service) enter(ctx context.Context, g *gateway.Gateway) {
	for ctx.Err() == nil {
		s.world.awaitControl(ctx)
		s.lock()
		if s.current == nil {
			s.unlock()
			return
		}
		d := *s.current
		limit, cancel := context.WithTimeout(ctx, time.Second)
		if g.Prepare(limit, d) != nil { // executors of hosts that are gone do not come
			s.world.history.note("%s: a gateway goes without some executors", s.name)
		}
		err := g.Install(ctx, d)
		cancel()
		s.unlock()
		if err == nil {
			return
		}
		_ = osutil.SleepTimer(ctx, 20*time.Millisecond)
	}
}

// whole reports whether all executors of what is installed live.
func (s *service) whole() bool {
	s.lock()
	defer s.unlock()
	if s.current == nil {
		return false
	}
	for _, slot := range s.current.Slots {
		if e := s.running[slot.Executor]; e == nil || e.gone() || !e.host.alive() {
			return false
		}
	}
	return true
}

// otherThan draws another declaration.
func (s *service) otherThan(one spec) spec {
	to := spec{versions: slices.Clone(one.versions), machines: slices.Clone(one.machines), dispatch: one.dispatch}
	i := s.rng.IntN(len(to.versions))
	switch s.rng.IntN(4) {
	case 0:
		to.dispatch = policies[s.rng.IntN(len(policies))]
	case 1:
		to.machines[i] = 1 + s.rng.IntN(3)
	default:
		to.versions[i] += 1 + s.rng.IntN(5)
	}
	return to
}

var policies = []string{"tc", "adaptive", "deferred", "eager"}

// declare has a declaration carried out.
func (s *service) declare(to spec) error {
	if s.world.temporal != nil {
		return s.world.temporal.apply(s, to)
	}
	return s.change(to)
}

// run is control, until faults cease and what was declared before is carried out.
func (s *service) run() {
	if s.world.temporal != nil {
		s.world.temporal.operate(s)
		return
	}
	s.operate()
	for tries := 0; !s.catchUp(); tries++ {
		if tries > 9 {
			s.world.history.violate("%s is not changed to what was declared, although all is well", s.name)
			return
		}
		s.world.pause(200 * time.Millisecond)
	}
}

// operate makes changes as they come, and new placements where executors are lost.
func (s *service) operate() {
	w := s.world
	longest := 400 * time.Millisecond
	if w.hurried {
		longest = 51 * time.Millisecond
	}
	for w.troubled() {
		if !w.pause(between(s.rng, 50*time.Millisecond, longest)) {
			return
		}
		if w.outage() > 0 {
			s.waitForControl()
			continue
		}
		switch n := s.rng.IntN(24); {
		case !w.troubled():
			return
		case s.asked != nil:
			s.catchUp()
		case !s.whole():
			_ = s.change(s.spec)
		case w.hurried:
			to := s.otherThan(s.spec)
			to.versions[s.rng.IntN(len(to.versions))]++
			_ = s.change(to)
		case w.faults.every == 0 && n > 4:
		case n < 4:
			_ = s.change(s.otherThan(s.spec))
		case n == 4:
			_ = s.change(s.before)
		case n == 5 && w.deletes:
			s.hide()
			s.remove()
			late := random(w.seed, fmt.Sprint("late orders of ", s.name, s.life))
			goesOn := w.pause(between(late, 1, time.Second))
			s.show()
			if goesOn && late.IntN(2) == 0 {
				s.giveAgain()
			} else if s.change(s.spec) == nil {
				s.giveAgain()
			}
		case n == 6:
			w.pause(2 * time.Second) // Temporal is away
		}
	}
}
