package demand

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOneGroupNeedsItsBatchToArrive(t *testing.T) {
	for _, c := range []struct {
		rate, batch, window float64
		sound               bool
	}{
		{rate: 10, batch: 4, window: 0.4, sound: true},
		{rate: 10, batch: 4, window: 0.399, sound: false},
		{rate: 10, batch: 1, window: 0.1, sound: true},
		{rate: 10, batch: 1, window: 0, sound: false},
		{rate: 10, batch: 1, window: -1, sound: false},
	} {
		v := Test(c.rate, []Group{{Batch: c.batch, Period: c.batch / c.rate, Window: c.window}})
		assert.Equal(t, c.sound, v.Sound, "%+v: %s", c, v.Describe())
	}
}

func TestWorkedExample(t *testing.T) {
	// Module M3 of Harpagon's Table I at 198 req/s and 1 s: four machines at
	// batch 32 (160 req/s), one at batch 8 (32 req/s), 6 req/s at batch 2.
	rate := 198.0
	windows := func(latency float64) []Group {
		return []Group{
			{Batch: 32, Period: 32.0 / 160, Window: latency - 0.8},
			{Batch: 8, Period: 8.0 / 32, Window: latency - 0.25},
			{Batch: 2, Period: 2.0 / 6, Window: latency - 0.1},
		}
	}
	assert.True(t, Test(rate, windows(1)).Sound)
	least := Least(rate, windows(0), []float64{0.8, 0.25, 0.1})
	assert.LessOrEqual(t, least, 1.0)
	assert.True(t, Test(rate, windows(least*1.000001)).Sound)
	assert.False(t, Test(rate, windows(least*0.999)).Sound)
}

func TestTwoGroupsThatCollide(t *testing.T) {
	// Both want 4 requests within 0.5 s of a stream that brings 10/s: 8 are due
	// at 0.5 s and 5 have come.
	v := Test(10, []Group{{Batch: 4, Period: 0.8, Window: 0.5}, {Batch: 4, Period: 0.8, Window: 0.5}})
	require.False(t, v.Sound)
	assert.InDelta(t, 0.5, v.At, 1e-9)
	assert.InDelta(t, 0.8, v.Demand, 1e-9)
	assert.Contains(t, v.Describe(), "batches of 8 requests are due, but only 5 have come")
}

func TestNumbersThatAreNone(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e300, 1e-300}
	for _, a := range bad {
		for _, b := range bad {
			for _, c := range bad {
				for _, rate := range bad {
					assert.NotPanics(t, func() {
						Test(rate, []Group{{Batch: a, Period: b, Window: c}, {Batch: 1, Period: 1, Window: 1}})
						Least(rate, []Group{{Batch: a, Period: b}}, []float64{c})
					})
				}
			}
		}
	}
	assert.True(t, Test(0, nil).Sound)
	assert.Zero(t, Least(0, nil, nil))
}

// TestAgainstSimulation compares the test with its exhaustive twin: earliest
// deadline first, played request by request over a whole hyperperiod.
func TestAgainstSimulation(t *testing.T) {
	sound, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "groups")
		jobs := make([]job, n)
		groups := make([]Group, n)
		for i := range jobs {
			period := rapid.SampledFrom([]int{2, 3, 4, 6, 8, 12, 24}).Draw(t, "period")
			jobs[i] = job{
				batch:  rapid.IntRange(1, max(1, period*2/3)).Draw(t, "batch"),
				period: period,
				window: rapid.IntRange(1, 30).Draw(t, "window"),
			}
			groups[i] = Group{Batch: float64(jobs[i].batch), Period: float64(period), Window: float64(jobs[i].window)}
		}
		want := simulate(jobs)
		got := Test(1, groups)
		require.Equal(t, want, got.Sound, "%+v: %s", jobs, got.Describe())
		total++
		if want {
			sound++
		}
	})
	t.Logf("%d of %d drawn cases are sound", sound, total)
	assert.NotZero(t, sound)
	assert.Less(t, sound, total)
}

type job struct{ batch, period, window int }

type open struct{ due, left int }

// simulate serves one request per unit of time to the open batch that is due
// first, and reports whether all are met over 24 + 30 units after the first
// busy stretch: all periods divide 24, and what has not failed within two
// cycles after the longest window repeats.
func simulate(jobs []job) bool {
	load := 0.0
	for _, j := range jobs {
		load += float64(j.batch) / float64(j.period)
	}
	if load > 1+1e-12 {
		return false
	}
	var queue []open
	for now := 0; now < 30+24*4; now++ {
		for _, j := range jobs {
			if now%j.period == 0 {
				queue = append(queue, open{due: now + j.window, left: j.batch})
			}
		}
		first := -1
		for i, o := range queue {
			if o.left > 0 && (first < 0 || o.due < queue[first].due) {
				first = i
			}
		}
		if first >= 0 {
			queue[first].left--
		}
		kept := queue[:0]
		for _, o := range queue {
			if o.left == 0 {
				continue
			}
			if o.due <= now+1 {
				return false
			}
			kept = append(kept, o)
		}
		queue = kept
	}
	return true
}

func TestLeastOfOneGroupIsTheStaggeredBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines := float64(rapid.IntRange(1, 50).Draw(t, "machines"))
		batch := float64(rapid.IntRange(1, 64).Draw(t, "batch"))
		d := rapid.Float64Range(0.001, 2).Draw(t, "duration")
		rate := machines * batch / d
		least := Least(rate, []Group{{Batch: batch, Period: batch / rate}}, []float64{d})
		assert.InEpsilon(t, d*(1+1/machines), least, 1e-6)
	})
}

func TestLongerWindowsNeverHurt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 1000).Draw(t, "rate")
		n := rapid.IntRange(1, 4).Draw(t, "groups")
		groups := make([]Group, n)
		for i := range groups {
			share := rate / float64(n) * rapid.Float64Range(0.1, 1).Draw(t, "share")
			b := float64(rapid.IntRange(1, 32).Draw(t, "batch"))
			groups[i] = Group{Batch: b, Period: b / share, Window: b / share * rapid.Float64Range(0.2, 2).Draw(t, "window")}
		}
		before := Test(rate, groups).Sound
		g := rapid.IntRange(0, n-1).Draw(t, "which")
		groups[g].Window *= 1.5
		if before {
			require.True(t, Test(rate, groups).Sound)
		}
	})
}

func BenchmarkTest(b *testing.B) {
	groups := []Group{{32, 0.2, 0.2}, {8, 0.25, 0.75}, {2, 1.0 / 3, 0.9}}
	b.ReportAllocs()
	for b.Loop() {
		Test(198, groups)
	}
}

// What Least says passes the test, and anything shorter does not.
func TestLeastIsWhereTheTestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStream(t, rapid.Bool().Draw(t, "full"))
		rate := perSecond * rapid.SampledFrom([]float64{1, 1.001, 1.01, 2}).Draw(t, "faster")
		least := Least(rate, s.groups, s.durations)
		passes := func(latency float64) bool {
			trial := slices.Clone(s.groups)
			for i := range trial {
				trial[i].Window = latency - s.durations[i]
			}
			return Test(rate, trial).Sound
		}
		require.True(t, passes(least*(1+1e-12)))
		rounding := 0.0 // is in proportion to the time that is looked at
		if again := hyperperiod(s.groups); !math.IsInf(again, 1) {
			rounding = 2 * slack * again
		}
		require.False(t, passes(least*(1-1e-5)-1e-7-rounding))
	})
}

// Batches every few nanoseconds, due before the first of the others is, have no proof: a
// hundred million dates would have to be looked at.
func TestLeastLooksAtSoManyDates(t *testing.T) {
	groups := []Group{{Batch: 3, Period: 3e-9}, {Batch: 3, Period: 3}}
	assert.True(t, math.IsInf(Least(2e9, groups, []float64{0.4, 0.1}), 1))
	least := Least(1e9+1, groups, []float64{0, 0})
	assert.False(t, math.IsInf(least, 1))
	assert.GreaterOrEqual(t, least, 6/(1e9+1))
}
