package experiments

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

var (
	draws     = flag.Int("draws", 0, "pipelines that TestPlansKeepTheirProofs draws; 0 for 100 with HARPAGON_LONG, 30 without")
	firstDraw = flag.Uint64("first-draw", 0, "seed of the first of them")
	fanouts   = flag.Int("fanout-draws", 0, "pipelines with fan-outs that TestBurstsKeepTheirProofs draws; 0 for 100 with HARPAGON_LONG, 30 without")
	streamed  = flag.Int("stream-draws", 0, "pipelines with streams that TestStreamsKeepTheirProofs draws; 0 for 100 with HARPAGON_LONG, 30 without")
	admitted  = flag.Bool("admission", false, "play them with admission control, too")
)

// kept are seeds of draws that lost requests once, or were played without end.
var kept, keptBursts, keptStreams = []uint64{73, 107, 195, 385, 397}, []uint64{320, 2411, 2658}, []uint64{99, 133}

// TestPlansKeepTheirProofs draws pipelines, plans them, and plays each plan that claims a
// proof for every request: none may lose one, whichever requests stay away and however late
// others come.
func TestPlansKeepTheirProofs(t *testing.T) {
	t.Parallel()
	keepProofs(t, *draws, kept, func(seed uint64) drawing { return drawing{Rand: rand.New(rand.NewPCG(seed, 1))} })
}

// TestBurstsKeepTheirProofs is the same for pipelines in which requests are divided into items, or
// take one of two branches.
func TestBurstsKeepTheirProofs(t *testing.T) {
	t.Parallel()
	keepProofs(t, *fanouts, keptBursts, func(seed uint64) drawing { return drawing{Rand: rand.New(rand.NewPCG(seed, 2)), fanouts: true} })
}

// TestStreamsKeepTheirProofs is the same for frames of streams, whatever their phases.
func TestStreamsKeepTheirProofs(t *testing.T) {
	t.Parallel()
	keepProofs(t, *streamed, keptStreams, func(seed uint64) drawing {
		d := drawing{Rand: rand.New(rand.NewPCG(seed, 3)), streams: true}
		d.fanouts = d.IntN(2) == 0
		return d
	})
}

// TestStatesKeepTheirProofs is the same where modules keep state, so that each frame waits there for the one
// before.
func TestStatesKeepTheirProofs(t *testing.T) {
	t.Parallel()
	keepProofs(t, *streamed, nil, func(seed uint64) drawing {
		d := drawing{Rand: rand.New(rand.NewPCG(seed, 4)), streams: true, states: true}
		d.fanouts = d.IntN(3) == 0
		return d
	})
}

// TestKindsKeepTheirProofs is the same for streams of several rates, with state at modules and without.
func TestKindsKeepTheirProofs(t *testing.T) {
	t.Parallel()
	keepProofs(t, *streamed, nil, func(seed uint64) drawing {
		d := drawing{Rand: rand.New(rand.NewPCG(seed, 5)), streams: true, kinds: true}
		d.fanouts, d.states = d.IntN(3) == 0, d.IntN(3) == 0
		return d
	})
}

func keepProofs(t *testing.T, n int, kept []uint64, drawn func(seed uint64) drawing) {
	if n == 0 {
		if n = 30; os.Getenv("HARPAGON_LONG") != "" {
			n = 100
		}
	}
	seeds := slices.Clone(kept)
	for i := range n {
		if seed := *firstDraw + uint64(i); !slices.Contains(kept, seed) {
			seeds = append(seeds, seed)
		}
	}
	playProofs(t, seeds, drawn)
}

func playProofs(t *testing.T, seeds []uint64, draw func(seed uint64) drawing) {
	proven, drawn, cost := map[string]int{}, map[string]int{}, map[string]float64{}
	for _, seed := range seeds {
		d := draw(seed)
		problems, o := d.problems()
		asked, most := 0, int(d.scale(50, mostAsked))
		o.Stop = func() bool { asked++; return asked > most }
		plans := policies.SolveAll(problems, o)
		kind := cmp.Or(o.CostModel, plan.CostShared) + " " + cmp.Or(o.Policy, plan.PolicyExact)
		drawn[kind]++
		if !provesAll(plans) {
			for _, p := range plans {
				if o.Policy == "" && p.Status != plan.Infeasible && p.Proof != plan.EveryRequest {
					t.Errorf("draw %d, %s: nothing is proven: %s", seed, kind, p.Describe())
				}
			}
			continue
		}
		proven[kind]++
		var all []pipelines.Pipeline
		for i := range problems {
			all = append(all, problems[i].Pipeline)
			cost[kind] += plans[i].Cost
		}
		for _, k := range d.plays(all, plans) {
			if err := keepsPromise(all, plans, k); err != nil {
				t.Errorf("draw %d, %s, %s: %v", seed, kind, says(k), err)
			}
		}
	}
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range drawn {
			if !yield(k) {
				return
			}
		}
	}) {
		t.Logf("%-24s %4d of %4d proven, %.2f an hour", kind, proven[kind], drawn[kind], cost[kind])
	}
}

// mostAsked is after how many polls of Stop a search is cut short at the latest: the plan
// found by then must keep its promise like the cheapest plan.
const mostAsked = 3000

// provesAll reports whether all plans are proven for every request, and there is something to serve.
func provesAll(plans []plan.Plan) bool {
	return !slices.ContainsFunc(plans, func(p plan.Plan) bool {
		return p.Status == plan.Infeasible || !p.Sound || p.Proof != plan.EveryRequest
	})
}

func says(k promisePlay) string {
	how := "even"
	if k.Arrivals != nil {
		how = "some left out and later"
	}
	if k.Phases != nil {
		how = fmt.Sprint("even from ", k.Phases)
	}
	return fmt.Sprintf("%s, eager %v, admission %v", how, k.Eager, k.Admission)
}

// drawing draws what is planned and played.
type drawing struct {
	*rand.Rand
	fanouts, streams, states, kinds bool
}

func (d drawing) between(low, high float64) float64 { return low + (high-low)*d.Float64() }

// scale draws numbers of all sizes between two alike.
func (d drawing) scale(low, high float64) float64 {
	return low * math.Pow(high/low, d.Float64())
}

// problems are one pipeline, or sometimes two that are planned together.
func (d drawing) problems() ([]plan.Problem, plan.Options) {
	o := plan.Options{CostModel: plan.CostShared}
	switch kind := d.IntN(20); {
	case kind < 4:
		o.CostModel = plan.CostWhole
	case kind < 6:
		o.CostModel = plan.CostProportional
	}
	if d.IntN(4) == 0 && !d.streams {
		names := policies.Names()
		o.Policy = names[d.IntN(len(names))]
	}
	hardware := []pipelines.Hardware{{Name: "base", Price: 1}, {Name: "fast", Price: d.between(1.5, 3)}}
	n := 1
	if o.CostModel == plan.CostShared && o.Policy == "" && d.IntN(4) == 0 {
		n = 2
	}
	var problems []plan.Problem
	for i := range n {
		p := d.pipeline(fmt.Sprintf("p%d", i), d.between(1.2, 2.4), o.Policy == plan.PolicyBrute)
		problems = append(problems, plan.Problem{Pipeline: p, Hardware: hardware})
	}
	return problems, o
}

// pipeline is one of up to six modules: a chain, a tree, or with joins.
func (d drawing) pipeline(name string, faster float64, few bool) pipelines.Pipeline {
	p := pipelines.Pipeline{Name: name, Rate: d.scale(2, 800), Arrivals: "even"}
	modules := min(6, 1+d.IntN(8))
	if few {
		modules = 1 + d.IntN(2)
	}
	joins := d.Float64()
	concurrent, items := d.IntN(4) == 0, 1
	for i := range modules {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1, Profile: d.profile(faster, concurrent)}
		for from := range i {
			if from == i-1 && len(m.Inputs) == 0 || d.Float64() < joins/2 {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("x%d", from), From: pipelines.Ref{Module: fmt.Sprintf("m%d", from), Port: "y"}})
			}
		}
		if d.fanouts && i > 0 && d.IntN(2) == 0 && items < mostDrawn {
			m.Scatter, m.Fanout = true, float64(1+d.IntN(mostDrawn/items))
			items *= int(m.Fanout)
			if d.IntN(3) == 0 {
				m.Most, m.Fanout = int(m.Fanout), m.Fanout*d.between(0.2, 1)
			}
		}
		p.Modules = append(p.Modules, m)
	}
	if d.fanouts && d.IntN(3) == 0 {
		d.branch(&p)
	}
	p.Rate /= float64(items)
	fastest := func(name string) time.Duration {
		least := time.Duration(math.MaxInt64)
		for _, at := range p.Module(name).Profile.Points {
			least = min(least, at.Duration)
		}
		return least
	}
	_, long, err := p.LongestPath(fastest)
	if err != nil {
		panic(err)
	}
	p.SLO = time.Duration(d.scale(1.5, 8) * float64(long)).Round(time.Microsecond)
	if d.streams {
		p.Stream = pipelines.Stream{Count: 1 + d.IntN(mostStreams)}
		p.Stream.Rate = p.Rate / float64(p.Stream.Count)
		if d.IntN(2) == 0 {
			p.Stream.Jitter = time.Duration(d.between(0, 0.9) / p.Stream.Rate * float64(time.Second))
		}
		if d.IntN(3) == 0 {
			p.Stream.Phases = pipelines.PhasesChosen
		}
	}
	if d.kinds {
		d.divide(&p)
	}
	if d.states {
		scopes := p.Resolve().Scopes()
		for i := range p.Modules {
			m := &p.Modules[i]
			m.State = !m.Scatter && len(pipelines.CommonScopeOf(m, scopes)) == 0 && d.IntN(2) == 0
		}
	}
	return p
}

// divide has streams of several kinds send the rate of a pipeline.
func (d drawing) divide(p *pipelines.Pipeline) {
	left, n := p.Rate, 2+d.IntN(2)
	for i := range n {
		s := pipelines.Stream{Kind: string(rune('a' + i)), Count: 1 + d.IntN(mostStreams/2), Rate: left}
		if i < n-1 {
			s.Rate *= d.between(0.1, 0.9)
		}
		left -= s.Rate
		s.Rate /= float64(s.Count)
		if d.IntN(2) == 0 {
			s.Jitter = time.Duration(d.between(0, 0.9) / s.Rate * float64(time.Second))
		}
		if d.IntN(4) == 0 {
			s.Phases = pipelines.PhasesChosen
		}
		p.Kinds = append(p.Kinds, s)
	}
	p.Stream, p.Rate = pipelines.Stream{}, p.StreamsTotal()
}

// mostStreams is how many streams a drawn pipeline has at the most.
const mostStreams = 48

// branch gives two modules a condition each, the one when and the other else, and a third one what
// either makes.
func (d drawing) branch(p *pipelines.Pipeline) {
	n := len(p.Modules)
	if n < 3 {
		return
	}
	gate := d.IntN(n - 2)
	yes, no := &p.Modules[gate+1], &p.Modules[gate+2]
	if yes.Scatter || no.Scatter {
		return
	}
	for i, m := range []*pipelines.Module{yes, no} {
		m.Scatter, m.Fanout, m.Most, m.When, m.Else = true, 0.5, 1, pipelines.Ref{Module: p.Modules[gate].Name, Port: "found"}, i == 1
		m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: p.Modules[gate].Name, Port: "y"}}}
	}
	if gate+3 < n && d.IntN(2) == 0 {
		p.Modules[gate+3].Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: yes.Name, Port: "y"}, Or: pipelines.Ref{Module: no.Name, Port: "y"}}}
	}
}

// mostDrawn is how many items of one request there are at the most.
const mostDrawn = 32

// profile is that of a module: batches of powers of two, sometimes several at a time.
func (d drawing) profile(faster float64, concurrent bool) (profile pipelines.Profile) {
	fixed, each := d.scale(2, 60), d.scale(0.3, 20)
	own := faster * d.between(0.8, 1.2)
	levels := 1
	if concurrent {
		levels = 1 + d.IntN(4)
	}
	for b := 1; b <= 1<<d.IntN(6); b *= 2 {
		ms := (fixed + each*float64(b)) * d.between(0.95, 1.05)
		for s := 1; s <= levels; s++ {
			slower := 1 + d.between(0.3, 0.9)*float64(s-1)
			for _, h := range []struct {
				name string
				is   float64
			}{{"base", 1}, {"fast", own}} {
				profile.Points = append(profile.Points, pipelines.Point{
					Hardware: h.name, Batch: b, Concurrency: s, Duration: time.Duration(ms * slower / h.is * float64(time.Millisecond)).Round(time.Microsecond),
				})
			}
		}
	}
	return profile
}

// span is how long plans are played, and mostRequests how many requests of one at the most.
const (
	span       = time.Minute
	mostPlayed = 24_000
)

// plays are how a plan is played: evenly, all pipelines from the same instant on, and at
// nearly the rate from instants that are drawn, where requests are left out and others
// come later. Of several pipelines, evenly from other instants, too: so that a batch of one comes to
// a device when the longest of another has just begun, and from twenty that are drawn.
func (d drawing) plays(all []pipelines.Pipeline, plans []plan.Plan) (list []promisePlay) {
	duration := span
	for i := range all {
		duration = min(duration, time.Duration(mostPlayed/mostRate(&all[i])*float64(time.Second)))
	}
	if d.streams {
		for _, within := range []float64{1e-9, 1e-3, 0.1, 1} {
			list = append(list, promisePlay{Arrivals: d.frames(all, within, duration), Duration: duration, Eager: d.IntN(2) > 0, Admission: *admitted})
		}
		return list
	}
	drawn := make([]arrivals.Process, len(all))
	for i := range all {
		drawn[i] = arrivals.Process{Kind: arrivals.Replay, Stamps: d.stamps(all[i].Rate, duration)}
	}
	for _, k := range []promisePlay{{}, {Arrivals: drawn}} {
		k.Duration, k.Eager = duration, d.IntN(4) > 0
		list = append(list, k)
		if *admitted {
			k.Eager, k.Admission = true, true
			list = append(list, k)
		}
	}
	if len(all) == 1 {
		return list
	}
	phases := afterBlockers(all, plans)
	for range drawnPhases {
		one := make([]time.Duration, len(all))
		for i := range all {
			one[i] = time.Duration(d.Float64() / all[i].Rate * float64(time.Second))
		}
		phases = append(phases, one)
	}
	for _, one := range phases {
		list = append(list, promisePlay{Phases: one, Duration: duration / phasedPart, Eager: d.IntN(4) > 0, Admission: *admitted})
	}
	return list
}

// frames are those of streams that begin within a part of a period, some of which are left out.
// Where phases are chosen they are spread over it, as they are to be.
func (d drawing) frames(all []pipelines.Pipeline, within float64, duration time.Duration) []arrivals.Process {
	drawn := make([]arrivals.Process, len(all))
	for i := range all {
		var stamps []stamp
		kinds, from := all[i].StreamKinds(), 0
		for k := range kinds {
			begins := 0.0
			if k > 0 {
				begins = d.Float64() * within
			}
			stamps = append(stamps, d.framesOf(&kinds[k], from, within, begins, duration)...)
			from += kinds[k].Count
		}
		slices.SortStableFunc(stamps, func(a, b stamp) int { return cmp.Compare(a.at, b.at) })
		drawn[i] = arrivals.Process{Kind: arrivals.Replay}
		for _, s := range stamps {
			drawn[i].Stamps, drawn[i].From = append(drawn[i].Stamps, s.at), append(drawn[i].From, s.from)
		}
	}
	return drawn
}

// stamp is when a frame of a stream comes.
type stamp struct {
	at   time.Duration
	from int
}

// framesOf are those of streams of one kind, counted from the first one, of which chosen phases begin at a part of
// a period.
func (d drawing) framesOf(of *pipelines.Stream, first int, within, begins float64, duration time.Duration) (stamps []stamp) {
	gap := 1e9 / of.Rate
	for k := range of.Count {
		phase := d.Float64() * within * gap
		if of.Chosen() {
			phase = (begins + float64(k)/float64(of.Count)) * gap
		}
		late, last := d.Float64(), 0.0
		for at := phase; at < float64(duration); at += gap {
			jitter := float64(of.Jitter)
			switch d.IntN(3) {
			case 0:
				jitter *= late
			case 1:
				jitter *= d.Float64()
			}
			last = max(last, at+jitter)
			if d.IntN(20) > 0 {
				stamps = append(stamps, stamp{time.Duration(last), first + k})
			}
		}
	}
	return stamps
}

// drawnPhases are those that are played besides, each for this part of the time.
const drawnPhases, phasedPart = 20, 8

// afterBlockers are the phases in which a batch is released on a shared device a nanosecond after the
// longest one of another pipeline has been.
func afterBlockers(all []pipelines.Pipeline, plans []plan.Plan) (list [][]time.Duration) {
	released := func(of plan.Task) (pipeline int, at time.Duration) {
		i := slices.IndexFunc(plans, func(p plan.Plan) bool { return p.Pipeline == of.Pipeline })
		budgets := map[string]time.Duration{}
		for _, m := range plans[i].Modules {
			budgets[m.Name] = m.Budget
		}
		g, err := flow.Compile(&all[i])
		if err != nil {
			panic(err)
		}
		g.Schedule(budgets, nil)
		m := plans[i].Modules[slices.IndexFunc(plans[i].Modules, func(m plan.Module) bool { return m.Name == of.Module })]
		return i, g.Nodes[g.Node(of.Module)].Offset + m.Groups[of.Group].Window
	}
	for i := range plans {
		for _, device := range plans[i].Devices {
			longest := slices.MaxFunc(device.Tasks, func(a, b plan.Task) int { return cmp.Compare(a.Duration, b.Duration) })
			for _, late := range device.Tasks {
				if late.Pipeline == longest.Pipeline {
					continue
				}
				blocker, begun := released(longest)
				other, released := released(late)
				one := make([]time.Duration, len(all))
				if one[other] = begun + 1 - released; one[other] < 0 {
					one[blocker], one[other] = -one[other], 0
				}
				if !slices.ContainsFunc(list, func(o []time.Duration) bool { return slices.Equal(o, one) }) {
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// mostRate is that of the module that gets most.
func mostRate(p *pipelines.Pipeline) (most float64) {
	for _, rate := range p.Rates() {
		most = max(most, rate)
	}
	return most
}

// stamps are requests that come at least 1/rate apart, from an instant that is drawn on.
func (d drawing) stamps(rate float64, duration time.Duration) (list []time.Duration) {
	gap := 1 / rate
	at := d.Float64() * gap
	if d.IntN(2) == 0 {
		gap /= d.between(0.9, 1)
	}
	left, later, long := d.Float64()*0.2*float64(d.IntN(2)), d.Float64()*0.2*float64(d.IntN(2)), d.scale(0.1, 20)
	for at < duration.Seconds() {
		if d.Float64() >= left || len(list) == 0 {
			list = append(list, time.Duration(math.Ceil(at*float64(time.Second))))
		}
		at += gap
		if d.Float64() < later {
			at += d.Float64() * long * gap
		}
	}
	return list
}
