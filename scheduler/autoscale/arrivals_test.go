package autoscale

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// seen shows a detector a span every five seconds and returns its last advice.
func seen(a *Arrivals, start time.Time, spans int, variation float64, completed, late int64) (*ArrivalsAdvice, int) {
	missed := 0
	for i := range spans {
		to := start.Add(time.Duration(i+1) * 5 * time.Second)
		m := Measures{From: to.Add(-10 * time.Second), To: to, Arrived: 100, Completed: completed, Late: late, Gaps: &Gaps{100, variation}}
		a.Observe(m)
		if _, ok := a.Missed(0.99); ok {
			missed++
		}
	}
	return a.Seen(), missed
}

func TestArrivalsOtherThanDeclared(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		declared  string
		variation float64
		late      int64
		side      int
		missed    int
		instead   string
	}{
		"even, as declared":                 {"", 0.1, 10, 0, 0, ""},
		"Poisson, as declared":              {"poisson", 1.2, 10, 0, 0, ""},
		"Poisson declared even":             {"even", 1.1, 10, 1, 2, "poisson"},
		"the same, and all are in time":     {"even", 1.1, 0, 1, 0, "poisson"},
		"bursts declared Poisson":           {"poisson", 9, 10, 1, 2, "gamma:0.1"},
		"wilder bursts than can be planned": {"poisson", 1e6, 10, 1, 2, "gamma:0.01"},
		"even declared Poisson":             {"poisson", 0.05, 10, -1, 0, "even"},
		"a trace has none":                  {"trace:counts.csv", 9, 10, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var a Arrivals
			a.Reset(&pipelines.Pipeline{Arrivals: c.declared}, start)
			told, missed := seen(&a, start, 60, c.variation, 100-c.late, c.late) // five minutes
			assert.Equal(t, c.missed, missed, "one every two minutes")
			if c.side == 0 {
				assert.Nil(t, told)
				return
			}
			require.NotNil(t, told)
			assert.Equal(t, c.side, told.Side)
			assert.Equal(t, c.instead, told.Arrivals())
			assert.InDelta(t, c.variation, told.Variation, 1e-9*c.variation)
			text, err := json.Marshal(a)
			require.NoError(t, err)
			var again Arrivals
			require.NoError(t, json.Unmarshal(text, &again))
			assert.Equal(t, a.Seen().Describe(), again.Seen().Describe())
		})
	}
}

// A burst of a few seconds, or a handful of requests, is no other way of coming.
func TestArrivalsByChance(t *testing.T) {
	start := time.Unix(1000, 0)
	var a Arrivals
	a.Reset(&pipelines.Pipeline{Arrivals: pipelines.ArrivalsEven}, start)
	told, _ := seen(&a, start, 4, 9, 50, 50)
	assert.Nil(t, told, "20 s")
	told, _ = seen(&a, start.Add(20*time.Second), 40, 0, 100, 0)
	assert.Nil(t, told)

	a.Reset(&pipelines.Pipeline{Arrivals: pipelines.ArrivalsEven}, start)
	for i := range 60 {
		to := start.Add(time.Duration(i+1) * 5 * time.Second)
		a.Observe(Measures{From: to.Add(-5 * time.Second), To: to, Arrived: 3, Completed: 2, Late: 1, Gaps: &Gaps{2, 3}})
	}
	assert.Nil(t, a.Seen(), "12 requests within the hold time")
}

func TestArrivalsDescribe(t *testing.T) {
	a := ArrivalsAdvice{Side: 1, Variation: 1.08, Declared: 0, Held: 40 * time.Second, Attainment: 0.9312}
	assert.Equal(t, "requests come in more bursts than declared: squared variation of their gaps 1.08, declared 0 (for 40s, 93.12 % in time)", a.Describe())
}

func TestParts(t *testing.T) {
	g := &Gaps{10, 1}
	assert.Equal(t, g, MergeMeasures(Measures{Arrived: 10, Gaps: g}, Measures{}).Gaps)
	assert.Equal(t, g, MergeMeasures(Measures{}, Measures{Arrived: 10, Gaps: g}).Gaps)
	assert.Nil(t, MergeMeasures(Measures{Arrived: 10, Gaps: g}, Measures{Arrived: 10, Gaps: g}, Measures{}).Gaps, "gaps within parts of a stream are not those of the whole")
}
