package experiments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// latencyOf is a latency of each·size.
func latencyOf(each time.Duration) pipelines.Latency {
	return pipelines.Latency{{Batch: 1, Concurrency: 1, Duration: each}, {Batch: 100, Concurrency: 1, Duration: 100 * each}}
}

// pair is a pool of a base that takes 1 ms an item and another type that takes
// 2 ms, with an objective of 100 ms.
func pair(base, other int) pool.TrialPool {
	return pool.TrialPool{SLO: 100 * ms, Counts: []int{base, other}, Types: []pool.TrialType{{Name: "base", Latency: latencyOf(ms)}, {Name: "other", Latency: latencyOf(2 * ms)}}}
}

// load are queries of these sizes.
func load(sizes ...int) pool.TrialLoad {
	var mix pipelines.Mix
	for _, s := range sizes {
		mix = append(mix, pipelines.Size{Size: s, Weight: 1})
	}
	for seed := uint64(0); ; seed++ { // that draws each once
		if l := pool.Draw(mix, len(sizes), arrivals.Process{}, seed); len(l.Mix()) == len(sizes) {
			return l
		}
	}
}

func TestOracleByHand(t *testing.T) {
	const rounding = 1e-6 // of whole nanoseconds
	// The base takes 90 and then 60; the other type 10, 20 and 30 (120 ms).
	assert.InEpsilon(t, 5/0.150, bestThroughput(pair(1, 1), load(10, 20, 30, 60, 90)), rounding)
	assert.InEpsilon(t, 1/0.090, bestThroughput(pair(1, 3), load(90)), rounding, "only the base serves 90 in time")
	assert.Zero(t, bestThroughput(pair(0, 1), load(90)))
	assert.Zero(t, bestThroughput(pair(1, 1), pool.TrialLoad{}))
}

// starts plays queries that come together and returns where each begins.
func starts(p pool.TrialPool, d dispatch.Policy, sizes ...int32) map[int]string {
	got := map[int]string{}
	var out []dispatch.Action
	id := 0
	for g, n := range p.Counts {
		for range n {
			out = d.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id), Group: int32(g)}, out[:0])
			id++
		}
	}
	for i, size := range sizes {
		r := dispatch.Request{ID: dispatch.RequestID(i), Size: size, Deadline: p.SLO}
		for _, a := range d.Step(0, dispatch.Event{Kind: dispatch.Arrive, Request: r}, out[:0]) {
			switch a.Act {
			case dispatch.Start:
				got[int(a.Batch[0])] = p.Types[a.Group].Name
			case dispatch.Drop:
				got[int(a.Request)] = "dropped"
			}
		}
	}
	return got
}

func TestDistributorsByHand(t *testing.T) {
	assert.Equal(t, map[int]string{0: "base", 1: "other"}, starts(pair(1, 1), distributor(ribbon, pair(1, 1), 100, 0), 10, 90), "it does not check whether 90 is in time")
	assert.Equal(t, map[int]string{0: "other", 1: "base"}, starts(pair(1, 1), distributor(deeprecsys, pair(1, 1), 100, 50), 10, 90))
	assert.Equal(t, map[int]string{0: "base", 1: "other"}, starts(pair(1, 1), distributor(clockwork, pair(1, 1), 100, 0), 40, 30))
	assert.Equal(t, map[int]string{0: "base", 1: "dropped"}, starts(pair(1, 1), distributor(clockwork, pair(1, 1), 100, 0), 40, 70), "neither would be in time")
	assert.Equal(t, map[int]string{0: "base"}, starts(pair(1, 0), distributor(deeprecsys, pair(1, 0), 100, 50), 10, 20), "without other types the base serves all")
}

func TestHillClimbFindsAThreshold(t *testing.T) {
	p := pair(1, 3)
	mix := pipelines.Mix{{Size: 10, Weight: 6}, {Size: 40, Weight: 1}, {Size: 90, Weight: 0.3}}
	threshold, rate, err := hillClimb(pool.DefaultTrialSearch(), p, pool.Draw(mix, 2000, arrivals.Process{}, 1), 90, 500)
	require.NoError(t, err)
	assert.True(t, threshold >= 10 && threshold < 90, threshold)
	assert.Positive(t, rate)
}

// TestEveryQueryHasOneEnd drives the distributors with instances that come and go and queries
// that are cancelled: each query starts, is dropped or cancelled once, and never on an instance
// that is busy or gone.
func TestEveryQueryHasOneEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := distributor(rapid.SampledFrom([]string{ribbon, clockwork, deeprecsys}).Draw(t, "name"), pair(1, 1), 50, 20)
		var now, timer dispatch.Time = 0, dispatch.Never
		waiting, busy, up := map[dispatch.RequestID]bool{}, map[dispatch.ExecutorID]bool{}, map[dispatch.ExecutorID]int32{}
		step := func(ev dispatch.Event) {
			for _, a := range p.Step(now, ev, nil) {
				switch a.Act {
				case dispatch.SetTimer:
					require.GreaterOrEqual(t, a.At, now)
					timer = a.At
				case dispatch.Drop:
					require.True(t, waiting[a.Request])
					delete(waiting, a.Request)
				case dispatch.Start:
					group, ok := up[a.Executor]
					require.True(t, ok && !busy[a.Executor] && group == a.Group)
					require.True(t, waiting[a.Batch[0]])
					delete(waiting, a.Batch[0])
					busy[a.Executor] = true
				}
			}
			require.Equal(t, len(waiting), p.Len())
		}
		for id := range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 20).Draw(t, "wait")) * ms
			for timer <= now {
				timer = dispatch.Never
				step(dispatch.Event{Kind: dispatch.Timer})
			}
			x := dispatch.ExecutorID(rapid.IntRange(0, 3).Draw(t, "executor"))
			_, there := up[x]
			switch kind := rapid.SampledFrom([]dispatch.Kind{dispatch.Arrive, dispatch.Arrive, dispatch.Arrive, dispatch.Cancel, dispatch.ExecutorUp, dispatch.ExecutorFree, dispatch.ExecutorGone}).Draw(t, "event"); {
			case kind == dispatch.Arrive:
				waiting[dispatch.RequestID(id)] = true
				step(dispatch.Event{Kind: kind, Request: dispatch.Request{ID: dispatch.RequestID(id), Arrival: now, Size: int32(rapid.IntRange(0, 70).Draw(t, "size"))}})
			case kind == dispatch.Cancel:
				gone := dispatch.RequestID(rapid.IntRange(0, 150).Draw(t, "request"))
				delete(waiting, gone)
				step(dispatch.Event{Kind: kind, Request: dispatch.Request{ID: gone}})
			case kind == dispatch.ExecutorUp && !there:
				up[x] = int32(x) % 2
				step(dispatch.Event{Kind: kind, Executor: x, Group: up[x]})
			case kind == dispatch.ExecutorFree && busy[x]:
				delete(busy, x)
				step(dispatch.Event{Kind: kind, Executor: x})
			case kind == dispatch.ExecutorGone && there:
				delete(up, x)
				delete(busy, x)
				step(dispatch.Event{Kind: kind, Executor: x})
			}
		}
		for timer < dispatch.Never { // nothing waits beyond its deadline, whatever became of the instances
			now, timer = timer, dispatch.Never
			step(dispatch.Event{Kind: dispatch.Timer})
		}
	})
}

// TestNoDistributorExceedsTheBound plays them against the bound, on random configurations.
func TestNoDistributorExceedsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pool.Problem{Pool: pipelines.Pool{Name: "ranking", SLO: 100 * ms, Budget: rapid.Float64Range(1.2, 3).Draw(t, "budget"), Base: "gpu"}}
		for i, kind := range []string{"gpu", "cpu", "old"} {
			fixed, each := rapid.IntRange(0, 20).Draw(t, "fixed"), rapid.IntRange(1, 7).Draw(t, "each")
			if i == 0 {
				each = 1 // so that it meets the objective at every size
			}
			p.Hardware = append(p.Hardware, pipelines.Hardware{Name: kind, Price: []float64{1, 0.3, 0.2}[i]})
			for _, size := range []int{1, 80} {
				p.Pool.Profile.Points = append(p.Pool.Profile.Points, pipelines.Point{Hardware: kind, Batch: size, Concurrency: 1, Duration: time.Duration(fixed+each*size) * ms})
			}
		}
		for size := 4; size <= 80; size += 19 {
			p.Pool.Sizes = append(p.Pool.Sizes, pipelines.Size{Size: size, Weight: rapid.Float64Range(0.01, 1).Draw(t, "weight")})
		}
		s, err := pool.NewStudy(p, pool.Options{Queries: 300})
		require.NoError(t, err)
		all := s.Configurations()
		c := all[rapid.IntRange(0, len(all)-1).Draw(t, "configuration")]
		bound := s.Bound(c)
		for _, by := range []string{ribbon, clockwork, deeprecsys} {
			make := func() dispatch.Policy { return distributor(by, s.Trial(c), 80, 50) }
			rate, err := s.Search.Goodput(s.Trial(c), make, s.Load, 2*min(bound, 1e9))
			require.NoError(t, err, by)
			require.LessOrEqual(t, rate, bound, by)
		}
	})
}
