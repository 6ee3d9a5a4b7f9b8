package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// exhaustive is the most requests that can be served, by trying everything:
// batches in order, each on the executor that is free first.
func exhaustive(p limitProblem, i int, free []time.Duration) int {
	if i == len(p.Arrivals) {
		return 0
	}
	best := exhaustive(p, i+1, free)
	for b := 1; b <= len(p.Durations) && i+b <= len(p.Arrivals); b++ {
		start := max(p.Arrivals[i+b-1], free[0])
		end := start + p.Durations[b-1]
		if end > p.Arrivals[i]+p.SLO {
			continue
		}
		next := append(slices.Clone(free[1:]), end)
		slices.Sort(next)
		best = max(best, b+exhaustive(p, i+b, next))
	}
	return best
}

func TestUpperIsNeverBelowTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := limitProblem{SLO: time.Duration(rapid.IntRange(20, 60).Draw(t, "slo")) * ms, Executors: rapid.IntRange(1, 2).Draw(t, "executors")}
		at := time.Duration(0)
		for range rapid.IntRange(1, 9).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 15).Draw(t, "gap")) * ms
			p.Arrivals = append(p.Arrivals, at)
		}
		each, fixed := rapid.IntRange(0, 5).Draw(t, "each"), rapid.IntRange(1, 20).Draw(t, "fixed")
		for b := range 4 {
			p.Durations = append(p.Durations, time.Duration(fixed+each*(b+1))*ms)
		}
		r, err := upperLimit(p, limitOptions{Rounds: 40, Cell: 2 * ms})
		require.NoError(t, err)
		best := exhaustive(p, 0, make([]time.Duration, p.Executors))
		const rounding = 1e-6
		require.GreaterOrEqual(t, r.Served, float64(best)-rounding)
		require.LessOrEqual(t, r.Served, float64(len(p.Arrivals))+rounding)
	})
}

func TestUpperRefusesBadInput(t *testing.T) {
	good := limitProblem{Arrivals: []time.Duration{1, 2}, Durations: []time.Duration{1, 2}, SLO: 10, Executors: 1}
	for name, spoil := range map[string]func(*limitProblem){
		"no SLO":           func(p *limitProblem) { p.SLO = 0 },
		"no executors":     func(p *limitProblem) { p.Executors = 0 },
		"no durations":     func(p *limitProblem) { p.Durations = nil },
		"falling duration": func(p *limitProblem) { p.Durations = []time.Duration{2, 1} },
		"unsorted":         func(p *limitProblem) { p.Arrivals = []time.Duration{2, 1} },
		"negative":         func(p *limitProblem) { p.Arrivals = []time.Duration{-1, 1} },
	} {
		p := good
		spoil(&p)
		_, err := upperLimit(p, limitOptions{})
		assert.Error(t, err, name)
	}
	r, err := upperLimit(limitProblem{Durations: good.Durations, SLO: 10, Executors: 1}, limitOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1.0, r.Attainment)
}

// One executor, batches of one in 10 ms, ten requests at once, due after 35 ms:
// three can be served.
func Example_upperLimit() {
	r, _ := upperLimit(limitProblem{
		Arrivals:  make([]time.Duration, 10),
		Durations: []time.Duration{10 * ms}, SLO: 35 * ms, Executors: 1,
	}, limitOptions{})
	fmt.Println(math.Floor(r.Served))
	// Output: 3
}

// BenchmarkUpper bounds Symphony's Table 4 setting (ResNet50) at 0.98 of the
// staggered bound of 5,839 requests/s, over one second.
func BenchmarkUpper(b *testing.B) {
	b.ReportAllocs()
	rng := rand.New(rand.NewPCG(1, 2))
	p := limitProblem{SLO: 25 * ms, Executors: 8}
	for at := 0.0; at < 1; at += rng.ExpFloat64() / (0.98 * 5839) {
		p.Arrivals = append(p.Arrivals, time.Duration(at*1e9))
	}
	for n := 1; n <= 18; n++ {
		p.Durations = append(p.Durations, time.Duration(n)*1053*time.Microsecond+5072*time.Microsecond)
	}
	for b.Loop() {
		r, err := upperLimit(p, limitOptions{Rounds: 20})
		require.NoError(b, err)
		b.ReportMetric(r.Attainment, "attainment")
	}
}
