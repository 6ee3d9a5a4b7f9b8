package matching

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const ms = time.Millisecond

// linear is a measured line: each·size + fixed.
func linear(each, fixed time.Duration) pipelines.Latency {
	var l pipelines.Latency
	for size := 10; size <= 1000; size += 10 {
		l = append(l, pipelines.Point{Batch: size, Concurrency: 1, Duration: time.Duration(size)*each + fixed})
	}
	return l
}

// twoTypes is the illustration of section 5.1: the largest query takes 100 ms
// on the base and 200 ms on the other type.
func twoTypes() Options {
	return Options{SLO: 150 * ms, Largest: 1000, Types: []InstanceType{
		{Name: "base", Latency: linear(100*time.Microsecond, 0)},
		{Name: "small", Latency: linear(200*time.Microsecond, 0)},
	}}
}

func newTestMatching(t require.TestingT, o Options) *matching {
	p, err := New(o)
	require.NoError(t, err)
	return p.(*matching)
}

func query(id dispatch.RequestID, size int32, at dispatch.Time) dispatch.Event {
	return dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Size: size, Arrival: at}}
}

func TestMatchingCoefficients(t *testing.T) {
	o := twoTypes()
	o.Types = append(o.Types, InstanceType{Name: "slow", Latency: linear(500*time.Microsecond, 0)})
	p := newTestMatching(t, o)
	p.updateCoefficients()
	assert.Equal(t, []float64{1, 0.5, 0.2}, p.Coefficients, "the example under Definition 1")
}

func TestMatchingSendsLargeQueriesToTheBase(t *testing.T) {
	p := newTestMatching(t, twoTypes())
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0}, nil)
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 1, Group: 1}, nil)
	out := p.Step(0, query(1, 900, 0), nil)
	require.NotEmpty(t, out)
	assert.Equal(t, dispatch.ExecutorID(0), out[0].Executor, "900 takes 180 ms on the small type, over the SLO")
	out = p.Step(ms, query(2, 100, ms), nil)
	require.NotEmpty(t, out)
	assert.Equal(t, dispatch.ExecutorID(1), out[0].Executor)
}

// TestMatchingWaitsForTheBase holds that a query is kept for a busy instance
// where the idle one would make it late.
func TestMatchingWaitsForTheBase(t *testing.T) {
	p := newTestMatching(t, twoTypes())
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0}, nil)
	p.Step(0, query(1, 400, 0), nil) // until 40 ms
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 1, Group: 1}, nil)
	out := p.Step(ms, query(2, 900, ms), nil)
	for _, a := range out {
		assert.NotEqual(t, dispatch.Start, a.Act, a)
	}
	out = p.Step(40*ms, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: 0}, nil)
	require.NotEmpty(t, out)
	assert.Equal(t, "start [2] on executor 0 of group 0", out[0].String())
}

func TestMatchingDropsWhatNoInstanceCanServe(t *testing.T) {
	p := newTestMatching(t, twoTypes())
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0}, nil)
	p.Step(0, query(1, 900, 0), nil) // until 90 ms
	out := p.Step(ms, query(2, 900, ms), nil)
	assert.Empty(t, slices.DeleteFunc(out, func(a dispatch.Action) bool { return a.Act == dispatch.SetTimer }), "it is not looked at while nothing idles")
	out = p.Step(90*ms, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: 0}, nil)
	assert.Equal(t, dispatch.Action{Act: dispatch.Drop, Request: 2, Reason: dispatch.Late}, out[0])
	assert.Zero(t, p.Len())
}

func TestMatchingWithoutInstancesKeepsDeadlines(t *testing.T) {
	p := newTestMatching(t, twoTypes())
	out := p.Step(0, query(1, 100, 0), nil)
	require.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 150 * ms}}, out)
	out = p.Step(150*ms, dispatch.Event{Kind: dispatch.Timer}, nil)
	require.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 150*ms + 1}}, out, "at its deadline it is not late yet")
	out = p.Step(150*ms+1, dispatch.Event{Kind: dispatch.Timer}, nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Drop, Request: 1, Reason: dispatch.Late}}, out)
}

func TestMatchingBoundsItsQueue(t *testing.T) {
	o := twoTypes()
	o.MaxQueue = 1
	p := newTestMatching(t, o)
	p.Step(0, query(1, 100, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Drop, Request: 2, Reason: dispatch.Full}}, p.Step(0, query(2, 100, 0), nil))
}

// TestMatchingLearns starts without a profile and ends up with the latencies.
func TestMatchingLearns(t *testing.T) {
	o := twoTypes()
	o.Types[0].Latency, o.Types[1].Latency, o.Largest = nil, nil, 0
	p := newTestMatching(t, o)
	assert.Zero(t, p.Types[1].predict(100))
	p.Types[1].learn(100, 20*ms)
	assert.Equal(t, 20*ms, p.Types[1].predict(50), "a smaller query takes no longer")
	assert.Equal(t, 40*ms, p.Types[1].predict(200), "a larger one takes its share")
	p.Types[1].learn(300, 50*ms)
	assert.InDelta(t, 35*ms, p.Types[1].predict(200), 1, "a line")
	p.Types[1].learn(200, 60*ms)
	assert.Equal(t, 60*ms, p.Types[1].predict(200), "what was seen goes first")
	assert.Contains(t, p.Describe(), "small: 0 of 0 instances idle, coefficient 0.00, 3 sizes seen, largest 300")
}

func TestMatchingCorrectsItsProfile(t *testing.T) {
	p := newTestMatching(t, twoTypes())
	for size := int32(10); size <= 500; size += 10 {
		p.Types[0].learn(size, 2*time.Duration(size)*100*time.Microsecond) // twice as long as profiled
	}
	assert.InEpsilon(t, 180*ms, p.Types[0].predict(900), 0.02)
}

func TestMatchingOptionsCheck(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"at least one type": func(o *Options) { o.Types = nil },
		"the base is one":   func(o *Options) { o.Base = 2 },
		"above zero":        func(o *Options) { o.SLO = 0 },
		"a share":           func(o *Options) { o.Safety = 2 },
		"one coefficient":   func(o *Options) { o.Coefficients = []float64{1} },
		"must be above":     func(o *Options) { o.Coefficients = []float64{1, 0} },
	} {
		o := twoTypes()
		change(&o)
		_, err := New(o)
		assert.ErrorContains(t, err, name)
	}
}

// TestMatchingKeepsItsPromises plays random events and checks what every
// policy promises: one outcome for each request, batches on idle executors
// only, nothing started that is predicted to be late.
func TestMatchingKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := twoTypes()
		o.Width = rapid.IntRange(1, 3).Draw(t, "width")
		o.Instances = rapid.IntRange(1, 6).Draw(t, "instances")
		if rapid.Bool().Draw(t, "blind") {
			o.Types[1].Latency = nil
		}
		p := newTestMatching(t, o)
		now, next := dispatch.Time(0), dispatch.RequestID(1)
		waiting, running, idle := map[dispatch.RequestID]dispatch.Request{}, map[dispatch.ExecutorID]dispatch.Time{}, map[dispatch.ExecutorID]int32{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 30).Draw(t, "gap")) * ms
			var ev dispatch.Event
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0, 1, 2:
				ev = query(next, int32(rapid.IntRange(1, 1000).Draw(t, "size")), now)
				waiting[next] = ev.Request
				next++
			case 3:
				id := dispatch.ExecutorID(rapid.IntRange(0, 4).Draw(t, "up"))
				if _, busy := running[id]; busy || idle[id] != 0 {
					continue
				}
				ev = dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: int32(id) % 2}
				idle[id] = 1
			case 4:
				id := dispatch.ExecutorID(rapid.IntRange(0, 4).Draw(t, "free"))
				if _, busy := running[id]; !busy {
					continue
				}
				ev = dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}
				delete(running, id)
				idle[id] = 1
			case 5:
				id := dispatch.ExecutorID(rapid.IntRange(0, 4).Draw(t, "gone"))
				ev = dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id}
				delete(running, id)
				delete(idle, id)
			case 6:
				ev = dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: dispatch.RequestID(rapid.IntRange(1, 20).Draw(t, "cancel"))}}
				delete(waiting, ev.Request.ID)
			}
			for _, a := range p.Step(now, ev, nil) {
				switch a.Act {
				case dispatch.Start:
					require.Len(t, a.Batch, 1)
					r, ok := waiting[a.Batch[0]]
					require.True(t, ok, "%v", a)
					require.NotZero(t, idle[a.Executor], "%v", a)
					require.LessOrEqual(t, now, r.Arrival+o.SLO)
					delete(waiting, r.ID)
					delete(idle, a.Executor)
					running[a.Executor] = now
				case dispatch.Drop:
					require.Contains(t, waiting, a.Request)
					delete(waiting, a.Request)
				}
			}
			require.Len(t, waiting, p.Len())
			require.Equal(t, len(idle), p.Idle)
		}
	})
}

func TestMatchingReusesItsMemory(t *testing.T) {
	p, step := loaded(50, 10)
	var out []dispatch.Action
	assert.Zero(t, testing.AllocsPerRun(50, func() { out = step(out[:0]) }))
	assert.Equal(t, 50, p.Len())
}

// loaded is a policy with busy instances and waiting queries, and a step that
// makes one decision: an instance frees, a query starts there, another comes.
func loaded(waiting, instances int) (*matching, func([]dispatch.Action) []dispatch.Action) {
	o := Options{SLO: 400 * ms, Largest: 1000}
	for g, each := range []time.Duration{257, 386, 400, 880} {
		o.Types = append(o.Types, InstanceType{Name: fmt.Sprint(g), Latency: linear(each*time.Microsecond, 3*ms)})
	}
	policy, err := New(o)
	if err != nil {
		panic(err)
	}
	p := policy.(*matching)
	rng := rand.New(rand.NewPCG(1, 1))
	now, next := dispatch.Time(0), dispatch.RequestID(0)
	size := func() int32 { return 10 * (1 + rng.Int32N(30)) }
	for id := range instances {
		p.Step(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id), Group: int32(id % 4)}, nil)
	}
	for range instances + waiting {
		next++
		p.Step(now, query(next, size(), now), nil)
	}
	for g := range p.Types { // as a policy that has seen all sizes
		for s := int32(10); s <= 1000; s += 10 {
			p.Types[g].learn(s, p.Types[g].predict(s))
		}
	}
	id := dispatch.ExecutorID(0)
	return p, func(out []dispatch.Action) []dispatch.Action {
		// The decision is the same size each time: what started comes again.
		now += time.Microsecond
		id = (id + 1) % dispatch.ExecutorID(instances)
		for i := range p.Waiting {
			p.Waiting[i].Deadline = now + 400*ms
		}
		p.Instances[id].Until = now
		out = p.Step(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}, out)
		for p.Len() < waiting {
			next++
			out = p.Step(now, query(next, size(), now), out)
		}
		return out
	}
}

func ExampleNew() {
	p, err := New(twoTypes())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ev := range []dispatch.Event{
		{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0},
		{Kind: dispatch.ExecutorUp, Executor: 1, Group: 1},
		{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 1, Size: 900}},
		{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 2, Size: 100}},
	} {
		for _, a := range p.Step(0, ev, nil) {
			if a.Act == dispatch.Start {
				fmt.Println(a)
			}
		}
	}
	// Output:
	// start [1] on executor 0 of group 0
	// start [2] on executor 1 of group 1
}
