package autoscale

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// feed offers the rates one after another, each over a span, and returns what
// was advised and when.
func feed(d *Drift, from time.Time, span time.Duration, rates ...float64) (advice []Advice, at []time.Duration) {
	for _, r := range rates {
		m := Measures{From: from, To: from.Add(span), Offered: r}
		if a := d.Observe(m); a.Reschedule {
			advice, at = append(advice, a), append(at, m.To.Sub(start))
		}
		from = m.To
	}
	return advice, at
}

func repeat(rate float64, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = rate
	}
	return list
}

func TestDriftAdvisesAfterTheHoldTime(t *testing.T) {
	d := NewDrift(10, DriftOptions{})
	advice, at := feed(&d, start, 5*time.Second, append(repeat(10, 4), repeat(18.2, 6)...)...)
	require.Len(t, advice, 1)
	assert.Equal(t, 50*time.Second, at[0], "20 s as planned, then 30 s away")
	assert.InDelta(t, 18.2, advice[0].Rate, 1e-9)
	assert.Equal(t, "rate 18.2/s for 30s, planned 10/s", advice[0].Describe())
	assert.Equal(t, "rate as planned, 10/s", d.noChange(0).Describe())
}

func TestDriftCountsOverlappingSpansOnce(t *testing.T) {
	d := NewDrift(25, DriftOptions{})
	var got []Advice
	for i := range 12 {
		to := start.Add(time.Duration(i+2) * 5 * time.Second)
		if a := d.Observe(Measures{From: to.Add(-10 * time.Second), To: to, Offered: 40}); a.Reschedule {
			got = append(got, a)
		}
	}
	require.Len(t, got, 1)
	assert.InDelta(t, 40, got[0].Rate, 1e-9)
}

func TestDriftIgnoresABurst(t *testing.T) {
	d := NewDrift(10, DriftOptions{})
	rates := append(repeat(10, 4), 40, 40)
	advice, _ := feed(&d, start, 5*time.Second, append(rates, repeat(10, 20)...)...)
	assert.Empty(t, advice)
}

func TestDriftNeedsMoreToScaleDown(t *testing.T) {
	d := NewDrift(10, DriftOptions{})
	advice, _ := feed(&d, start, 5*time.Second, repeat(7, 40)...)
	assert.Empty(t, advice)
	advice, _ = feed(&d, start.Add(200*time.Second), 5*time.Second, repeat(3, 40)...)
	require.NotEmpty(t, advice)
	assert.Less(t, advice[0].Rate, 5.0)
}

func TestDriftCoolsDown(t *testing.T) {
	d := NewDrift(10, DriftOptions{Hold: 10 * time.Second, Cooldown: time.Minute})
	_, at := feed(&d, start, 5*time.Second, repeat(30, 30)...)
	assert.Equal(t, []time.Duration{10 * time.Second, 70 * time.Second, 130 * time.Second}, at)

	d.Reset(30, start.Add(150*time.Second))
	advice, _ := feed(&d, start.Add(150*time.Second), 5*time.Second, repeat(30, 30)...)
	assert.Empty(t, advice, "the new plan is for this rate")
}

func TestDriftFromNothingPlanned(t *testing.T) {
	d := NewDrift(0, DriftOptions{})
	advice, _ := feed(&d, start, 5*time.Second, repeat(0, 20)...)
	assert.Empty(t, advice)
	advice, _ = feed(&d, start.Add(100*time.Second), 5*time.Second, repeat(2, 20)...)
	require.NotEmpty(t, advice)
	assert.InDelta(t, 2, advice[0].Rate, 1e-9)
}

func TestDriftSkipsUnusableMeasures(t *testing.T) {
	d := NewDrift(10, DriftOptions{})
	feed(&d, start, 5*time.Second, 10)
	before := d
	for _, m := range []Measures{
		{},
		{From: start, To: start, Offered: 50},
		{From: start, To: start.Add(4 * time.Second), Offered: 50}, // older than the last
		{From: start.Add(5 * time.Second), To: start.Add(10 * time.Second), Offered: math.NaN()},
		{From: start.Add(5 * time.Second), To: start.Add(10 * time.Second), Offered: math.Inf(1)},
		{From: start.Add(5 * time.Second), To: start.Add(10 * time.Second), Offered: -1},
	} {
		assert.False(t, d.Observe(m).Reschedule)
		assert.Equal(t, before, d)
	}
}

// Poisson arrivals at the planned rate are no drift, whatever the rate and the
// span; at double the rate they are found within a few hold times.
func TestDriftAndChance(t *testing.T) {
	for _, planned := range []float64{0.5, 5, 50, 500} {
		alarms, found := 0, 0
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			d := NewDrift(planned, DriftOptions{})
			quiet, _ := feed(&d, start, 5*time.Second, poisson(rng, planned, 5, 720)...) // an hour
			alarms += len(quiet)
			d = NewDrift(planned, DriftOptions{})
			loud, _ := feed(&d, start, 5*time.Second, poisson(rng, 2*planned, 5, 48)...) // four minutes
			found += min(1, len(loud))
		}
		assert.LessOrEqual(t, alarms, 2, "false alarms in 20 hours at %v/s", planned)
		assert.GreaterOrEqual(t, found, 19, "at %v/s", planned)
	}
}

func poisson(rng *rand.Rand, rate, span float64, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		count := 0.0
		for t := rng.ExpFloat64() / rate; t < span; t += rng.ExpFloat64() / rate {
			count++
		}
		list[i] = count / span
	}
	return list
}

func TestDriftSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewDrift(10, DriftOptions{})
		b := a
		from := start
		for range rapid.IntRange(1, 40).Draw(t, "spans") {
			m := Measures{From: from, To: from.Add(5 * time.Second), Offered: rapid.Float64Range(0, 40).Draw(t, "rate")}
			from = m.To
			encoded, err := json.Marshal(b)
			require.NoError(t, err)
			b = Drift{}
			require.NoError(t, json.Unmarshal(encoded, &b))
			require.Equal(t, a.Observe(m), b.Observe(m))
		}
	})
}

func TestMeasures(t *testing.T) {
	m := Measures{Pipeline: "traffic", From: start, To: start.Add(10 * time.Second), Completed: 90, Late: 4, Dropped: 3, Refused: 2, Failed: 1, Cancelled: 7,
		Modules: []ModuleMeasures{{Name: "detect", Batches: 3}}}
	m.SetAttainment()
	assert.Equal(t, 0.9, m.Attainment)
	assert.Equal(t, int64(100), m.Outcomes())
	assert.Equal(t, 10*time.Second, m.Span())
	assert.Equal(t, int64(3), m.Module("detect").Batches)
	assert.Nil(t, m.Module("nobody"))

	none := Measures{From: start, To: start.Add(-time.Second)}
	none.SetAttainment()
	assert.Equal(t, 1.0, none.Attainment)
	assert.Zero(t, none.Span())

	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	var back Measures
	require.NoError(t, json.Unmarshal(encoded, &back))
	assert.Equal(t, m, back)
}

// A deviation is reported before it is acted on; one of a few requests is not reported.
func TestAwayIsReported(t *testing.T) {
	start := time.Unix(1000, 0)
	told := func(offered float64, seconds int) *Advice {
		d := NewDrift(20, DriftOptions{})
		d.Reset(20, start)
		for i := range seconds {
			to := start.Add(time.Duration(i+1) * time.Second)
			d.Observe(Measures{From: to.Add(-time.Second), To: to, Offered: offered})
		}
		return d.Away()
	}
	assert.Nil(t, told(20, 60))
	assert.Nil(t, told(40, 5), "a burst")
	assert.Nil(t, told(0.1, 60), "a few requests are no load")
	require.NotNil(t, told(40, 20))
	assert.InDelta(t, 40, told(40, 20).Rate, 4)
	require.NotNil(t, told(5, 30))
	assert.Contains(t, told(5, 60).Describe(), "planned 20/s")
}
