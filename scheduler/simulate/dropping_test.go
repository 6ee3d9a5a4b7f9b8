package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// watched is a policy whose steps are looked at.
type watched struct {
	dispatch.Policy
	see func(now Time, ev dispatch.Event, waited int, actions []dispatch.Action)
}

func (w watched) Step(now Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	waited, from := w.Policy.(interface{ Len() int }).Len(), len(out)
	if ev.Kind == dispatch.Arrive {
		waited++
	}
	out = w.Policy.Step(now, ev, out)
	w.see(now, ev, waited, out[from:])
	return out
}

// watch plays a load on its plan, and shows every step of every station.
func watch(t require.TestingT, l Load, p plan.Plan, o Options, see func(e *engine, station int, now Time, waited int, actions []dispatch.Action)) Result {
	e, o, err := newEngine([]Load{l}, o)
	require.NoError(t, err)
	s := planSetup{engine: e, options: o, shared: map[groupName]int32{}}
	require.NoError(t, s.addPipeline(0, &l, &p))
	for i := range e.stations {
		e.stations[i].Policy = watched{e.stations[i].Policy, func(now Time, _ dispatch.Event, waited int, actions []dispatch.Action) {
			see(e, i, now, waited, actions)
		}}
	}
	r, err := e.play([]Load{l}, o)
	require.NoError(t, err)
	return r
}

// growing is a module whose batches take longer the more they hold.
func growing(name string, first, each time.Duration, largest int, from ...string) pipelines.Module {
	m := step(name, first, 1, from...)
	for b := 2; b <= largest; b *= 2 {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: first + time.Duration(b-1)*each})
	}
	return m
}

// drawnLoad is a chain, or a fork, of modules with batches and machines of its own, and how
// its requests come: with bursts, up to three times as many as its machines bear.
func drawnLoad(t *rapid.T, largest int) (Load, plan.Plan) {
	p := pipelines.Pipeline{Name: "p"}
	out := plan.Plan{Pipeline: "p", Status: plan.Feasible}
	bears := 1e9
	for i := range rapid.IntRange(1, 4).Draw(t, "modules") {
		var from []string
		if i > 0 {
			from = []string{p.Modules[rapid.IntRange(0, i-1).Draw(t, "from")].Name}
		}
		batch := 1 << rapid.IntRange(0, largest).Draw(t, "batch")
		m := growing(fmt.Sprint("m", i), time.Duration(rapid.IntRange(2, 30).Draw(t, "first"))*ms, time.Duration(rapid.IntRange(0, 4).Draw(t, "each"))*ms, batch, from...)
		p.Modules = append(p.Modules, m)
		n := float64(rapid.IntRange(1, 3).Draw(t, "machines"))
		last := m.Profile.Points[len(m.Profile.Points)-1]
		rate := n * float64(batch) / last.Duration.Seconds()
		bears = min(bears, rate)
		budget := last.Duration + time.Duration(float64(batch)/rate*1e9)
		out.Modules = append(out.Modules, plan.Module{Name: m.Name, Rate: rate, Budget: budget, Groups: []plan.Group{{
			Hardware: "gpu", Batch: batch, Concurrency: 1, Duration: last.Duration, Machines: n, Rate: rate,
			Period: time.Duration(float64(batch) / rate * 1e9), Window: time.Duration(float64(batch) / rate * 1e9),
		}}})
		p.SLO += budget
	}
	p.SLO = time.Duration(float64(p.SLO) * rapid.Float64Range(0.7, 1.5).Draw(t, "slo"))
	out.SLO = p.SLO
	l := Load{Pipeline: p, Rate: bears * rapid.Float64Range(0.3, 3).Draw(t, "load")}
	l.Arrivals = arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: rapid.SampledFrom([]float64{0.1, 0.3, 1}).Draw(t, "shape")}
	return l, out
}

// given is an item that is given up.
type given struct {
	left, one Time // until it must leave its module, and of a batch of its own
	waited    int  // at the module, this one among them
	first     bool // nothing has been done for its request
	others    bool // start in the same instant
}

// drops plays a load and counts what is given up as late: in all, and those that one batch of
// their own, begun at once here and at every module below, would have brought home in time.
// Every one is shown to check.
func drops(t require.TestingT, l Load, p plan.Plan, o Options, check func(given)) (all, alone int) {
	watch(t, l, p, o, func(e *engine, station int, now Time, waited int, actions []dispatch.Action) {
		for _, a := range actions {
			if a.Act != dispatch.Drop || a.Reason != dispatch.Late {
				continue
			}
			it := &e.items[e.find(a.Request)]
			n := &e.loads[it.load].nodes[it.node]
			table := e.stations[station].tables[0][0]
			one := table[0]
			end := it.arrival + e.loads[it.load].slo
			all++
			if now+one+n.Keep.Least <= end {
				alone++
			}
			check(given{
				left: end - n.kept - now, one: one, waited: waited, first: n.Feeders == 0,
				others: slices.ContainsFunc(actions, func(a dispatch.Action) bool { return a.Act == dispatch.Start }),
			})
		}
	})
	return all, alone
}

// With batches of one, a request is only given up when it could not have been in time even
// with all devices to itself: the least time of its module and of those below exceeds what
// is left. The serving rule also gives up others, but only before any work on them, and
// when one with more time left starts in the same instant.
func TestNothingIsDroppedThatCouldBeInTime(t *testing.T) {
	hopeless, yielded := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l, p := drawnLoad(t, 0)
		o := Options{Eager: rapid.Bool().Draw(t, "eager"), Dropping: rapid.SampledFrom([]Dropping{"", DropHopeless}).Draw(t, "rule"), Duration: 5 * time.Second}
		all, alone := drops(t, l, p, o, func(d given) {
			if d.one <= d.left {
				assert.True(t, d.first && d.others && d.waited > 1, "%+v", d)
			}
		})
		if o.Dropping == DropHopeless {
			assert.Zero(t, alone)
		}
		hopeless, yielded = hopeless+all-alone, yielded+alone
	})
	assert.NotZero(t, hopeless)
	assert.NotZero(t, yielded)
}

// What has been begun is given up only as hopeless, or for a full batch: at the modules after
// the first nothing but the least of those below is kept, whatever is missed.
func TestWhatHasBegunGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, p := drawnLoad(t, 0)
		drops(t, l, p, Options{Eager: true, Admission: true, Duration: 5 * time.Second}, func(d given) {
			if !d.first {
				assert.Greater(t, d.one, d.left)
			}
		})
	})
}

// Where batches are larger, a request that waits with nobody is given up only when it is
// hopeless. One that waits with others may go sooner, so that the batch does not stay small:
// that is the price of full batches, and not that of a request, and many of these could have
// been in time by themselves (TestDroppingKeepsBatchesFull).
func TestWhoWaitsAloneIsDroppedWhenHopeless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, p := drawnLoad(t, 3)
		o := Options{Eager: rapid.Bool().Draw(t, "eager"), Admission: rapid.Bool().Draw(t, "admission"), Duration: 5 * time.Second}
		drops(t, l, p, o, func(d given) {
			if d.waited == 1 {
				assert.Greater(t, d.one, d.left)
			}
		})
	})
}

// The counterexample to more than that: two modules in batches of eight, twice what they
// bear. Some of what is given up would have been in time alone.
func TestDroppingKeepsBatchesFull(t *testing.T) {
	l, p := pressed()
	all, alone := drops(t, l, p, Options{Eager: true, Duration: 20 * time.Second}, func(given) {})
	assert.NotZero(t, alone)
	t.Logf("%d given up, %d of them would have been in time alone", all, alone)
}

// pressed is a pipeline of two modules at twice what they bear, in bursts.
func pressed() (Load, plan.Plan) {
	p := pipelines.Pipeline{Name: "p", SLO: 120 * ms, Modules: []pipelines.Module{growing("a", 10*ms, 2*ms, 8), growing("b", 10*ms, 2*ms, 8, "a")}}
	out := onOwn(p, 1)
	for i := range out.Modules {
		m := &out.Modules[i]
		m.Rate, m.Budget = 300, 55*ms
		m.Groups[0] = plan.Group{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 24 * ms, Machines: 1, Rate: 300, Period: 27 * ms, Window: 27 * ms}
	}
	return Load{Pipeline: p, Rate: 600, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: 0.2}}, out
}
