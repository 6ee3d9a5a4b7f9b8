package demand

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// collect plays batches of what waits, first come first, and returns the longest latency.
func collect(arrivals []float64, batch, n int, duration float64) (worst float64) {
	slices.Sort(arrivals)
	free := make([]float64, n)
	for i := 0; i < len(arrivals); {
		at := slices.Index(free, slices.Min(free))
		start := max(free[at], arrivals[i])
		first := i
		for i < len(arrivals) && i < first+batch && arrivals[i] <= start {
			i++
		}
		free[at] = start + duration
		worst = max(worst, free[at]-arrivals[first])
	}
	return worst
}

// framesOf are instants of streams with those phases, of so many periods.
func framesOf(phases []float64, gap float64, periods int, jitter func(stream, frame int) float64) (all []float64) {
	for s, phase := range phases {
		last := math.Inf(-1)
		for k := range periods {
			at := max(last, phase+float64(k)*gap+jitter(s, k)) // in order
			all, last = append(all, at), at
		}
	}
	return all
}

func TestCollectedHoldsForAnyPhases(t *testing.T) {
	for name, worst := range map[string]struct {
		b        Bursts
		batch, n int
		duration float64
		want     float64
	}{
		"one stream":                      {Bursts{Items: 1, Gap: 0.1}, 8, 1, 0.02, 0.04},
		"a batch for all":                 {Bursts{Items: 8, Gap: 0.1}, 8, 1, 0.03, 0.06},
		"five batches on one":             {Bursts{Items: 40, Gap: 0.2}, 8, 1, 0.03, 0.18},
		"three rounds of two":             {Bursts{Items: 40, Gap: 0.1}, 8, 2, 0.03, 0.12},
		"jitter lets two periods come":    {Bursts{Items: 8, Gap: 0.1, Jitter: 0.1}, 8, 1, 0.06, 0.18},
		"jitter that is less than a gap":  {Bursts{Items: 8, Gap: 0.1, Jitter: 0.05}, 8, 1, 0.06, 0.13},
		"several of one stream":           {Bursts{Items: 1, Gap: 0.1, Jitter: 0.35}, 1, 1, 0.06, 0.31},
		"too few":                         {Bursts{Items: 9, Gap: 0.1}, 1, 1, 0.02, math.Inf(1)},
		"none":                            {Bursts{Items: 9, Gap: 0.1}, 1, 0, 0.02, math.Inf(1)},
		"used to the full, not to a beat": {Bursts{Items: 3, Gap: 0.3}, 2, 1, 0.2, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			worst.b.Any = true
			assert.InDelta(t, worst.want, worst.b.Collected(worst.batch, worst.n, worst.duration), 1e-9)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Bursts{Items: rapid.IntRange(1, 24).Draw(t, "streams"), Gap: float64(rapid.IntRange(5, 60).Draw(t, "gap")), Any: true}
		b.Jitter = float64(rapid.IntRange(0, 3*int(b.Gap)).Draw(t, "jitter"))
		batch, n, d := rapid.IntRange(1, 9).Draw(t, "batch"), rapid.IntRange(1, 4).Draw(t, "n"), float64(rapid.IntRange(1, 40).Draw(t, "duration"))
		bound := b.Collected(batch, n, d)
		phases := rapid.SliceOfN(rapid.Float64Range(0, b.Gap/float64(rapid.IntRange(1, 50).Draw(t, "within"))), b.Items, b.Items).Draw(t, "phases")
		late := rapid.SliceOfN(rapid.Float64Range(0, b.Jitter), 5, 5).Draw(t, "jitters")
		jitter := func(s, k int) float64 { return late[(s+3*k)%5] }
		if rapid.Bool().Draw(t, "late once") {
			jitter = func(_, k int) float64 { return map[bool]float64{true: b.Jitter}[k == 3] }
		}
		require.LessOrEqual(t, collect(framesOf(phases, b.Gap, 12, jitter), batch, n, d), bound+1e-9)
	})
}

// Of sources of several rates the same holds, each kind with its own gap and jitter.
func TestCollectedHoldsForSeveralKinds(t *testing.T) {
	one := Bursts{Items: 40, Gap: 0.1, Any: true, Jitter: 0.05}
	for _, d := range []float64{0.005, 0.019, 0.02} { // a kind that is divided is the same
		parts := Several([]Bursts{{Items: 30, Gap: 0.1, Jitter: 0.05}, {Items: 10, Gap: 0.1, Jitter: 0.05}})
		assert.InDelta(t, one.Collected(8, 1, d), parts.Collected(8, 1, d), 2*d*(1-1/2.0)+1e-9, "%v", d)
		assert.GreaterOrEqual(t, parts.Collected(8, 1, d), one.Collected(8, 1, d)-1e-9, "%v", d)
		assert.InDelta(t, one.Gap, parts.Gap, 1e-12)
	}
	mixed := Several([]Bursts{{Items: 8, Gap: 0.04}, {Items: 32, Gap: 0.2}})
	assert.InDelta(t, 40*0.2/72, mixed.Gap, 1e-12, "360 items a second")
	assert.InDelta(t, 0.12, mixed.Collected(8, 1, 0.02), 1e-9, "five batches behind one that has begun")
	assert.InDelta(t, 0.2, mixed.Shaped(), 1e-12)
	assert.True(t, math.IsInf(mixed.Collected(8, 1, 0.0223), 1))
	assert.Equal(t, 48, mixed.Came(0.04))
	assert.Equal(t, 112, mixed.Came(0.2))
	rapid.Check(t, func(t *rapid.T) {
		var kinds []Bursts
		for range rapid.IntRange(2, 4).Draw(t, "kinds") {
			k := Bursts{Items: rapid.IntRange(1, 12).Draw(t, "streams"), Gap: float64(rapid.IntRange(5, 60).Draw(t, "gap"))}
			k.Jitter = float64(rapid.IntRange(0, 2*int(k.Gap)).Draw(t, "jitter"))
			kinds = append(kinds, k)
		}
		b := Several(kinds)
		batch, n, d := rapid.IntRange(1, 9).Draw(t, "batch"), rapid.IntRange(1, 4).Draw(t, "n"), float64(rapid.IntRange(1, 40).Draw(t, "duration"))
		bound := b.Collected(batch, n, d)
		within, once := float64(rapid.IntRange(1, 50).Draw(t, "within")), rapid.Bool().Draw(t, "late once")
		at := rapid.Float64Range(100, 200).Draw(t, "at")
		var all []float64
		for i, k := range kinds {
			phases := rapid.SliceOfN(rapid.Float64Range(0, k.Gap/within), k.Items, k.Items).Draw(t, "phases")
			late := rapid.SliceOfN(rapid.Float64Range(0, k.Jitter), 5, 5).Draw(t, "jitters")
			jitter := func(s, k int) float64 { return late[(s+3*k)%5] }
			if once { // of all kinds at about the same time
				jitter = func(_, n int) float64 {
					return map[bool]float64{true: k.Jitter}[n == int((at-k.Jitter)/k.Gap)+i%2]
				}
			}
			all = append(all, framesOf(phases, k.Gap, int(400/k.Gap)+2, jitter)...)
		}
		require.LessOrEqual(t, collect(all, batch, n, d), bound+1e-9)
		came, start := 0, 3*float64(rapid.IntRange(0, 40).Draw(t, "span"))
		for _, k := range kinds {
			for i := range 200 {
				if float64(i)*k.Gap <= start {
					came += k.Items
				}
			}
		}
		require.Equal(t, came, b.Came(start))
	})
}

// A batch that has just begun with one item when all others come is the worst that may happen: it
// takes as long as the bound.
func TestCollectedIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bursts{Items: rapid.IntRange(2, 24).Draw(t, "streams"), Gap: 1000, Any: true}
		batch, d := rapid.IntRange(1, 9).Draw(t, "batch"), float64(rapid.IntRange(1, 20).Draw(t, "duration"))
		phases := make([]float64, b.Items)
		for i := range phases[1:] {
			phases[i+1] = 1e-9
		}
		one := b
		one.Items-- // the first has begun
		assert.InDelta(t, one.Collected(batch, 1, d), collect(framesOf(phases, b.Gap, 1, func(int, int) float64 { return 0 }), batch, 1, d), 1e-6)
	})
}
