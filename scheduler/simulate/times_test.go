package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const milli = time.Millisecond

func TestParseTimes(t *testing.T) {
	for text, want := range map[string]Times{
		"1ms":               constantTime(milli),
		"0":                 {},
		"uniform:1ms,3ms":   {Least: milli, Most: 3 * milli},
		"uniform:0s, 3ms":   {Most: 3 * milli},
		"lognormal:1ms,0.3": {Mean: milli, Variation: 0.3},
	} {
		got, file, err := ParseTimes(text)
		require.NoError(t, err, text)
		assert.Empty(t, file)
		assert.Equal(t, want, got, text)
	}
	_, file, err := ParseTimes("percentiles:net.csv")
	require.NoError(t, err)
	assert.Equal(t, "net.csv", file)
	for text, want := range map[string]string{
		"":                   "write a time such as",
		"1":                  "write a time such as",
		"-1ms":               "a time is not negative",
		"uniform:1ms":        "write a time such as",
		"uniform:3ms,1ms":    "must not be shorter",
		"uniform:-1ms,1ms":   "a time is not negative",
		"lognormal:1ms,-1":   "coefficient of variation",
		"lognormal:1ms,NaN":  "coefficient of variation",
		"lognormal:0s,1":     "a mean above zero",
		"normal:1ms,0.3":     "write a time such as",
		"percentiles:":       "write a time such as",
		"lognormal:1ms,much": "write a time such as",
	} {
		_, _, err := ParseTimes(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// Samples lie below each quantile with its probability.
func TestTimesAreDrawnByTheirQuantiles(t *testing.T) {
	const n = 20_000
	for name, times := range map[string]Times{
		"uniform":   {Least: milli, Most: 3 * milli},
		"lognormal": {Mean: milli, Variation: 0.5},
		"measured":  {Measured: []Percentile{{10, milli}, {50, 2 * milli}, {90, 4 * milli}, {100, 9 * milli}}},
	} {
		require.NoError(t, times.Check())
		r := RandomSource(1, ForDelay, 0)
		all, sum := make([]time.Duration, n), time.Duration(0)
		for i := range all {
			all[i] = times.Draw(r)
			sum += all[i]
		}
		slices.Sort(all)
		for _, q := range []float64{0.2, 0.5, 0.75, 0.99} {
			assert.InEpsilon(t, float64(times.Quantile(q)), float64(all[int(q*n)]), 0.05, "%s, %v", name, q)
		}
		if name == "lognormal" {
			assert.InEpsilon(t, float64(milli), float64(sum/n), 0.02)
		}
	}
	measured := Times{Measured: []Percentile{{50, milli}, {90, 3 * milli}}}
	assert.Equal(t, milli, measured.Quantile(0.2))
	assert.Equal(t, 2*milli, measured.Quantile(0.7))
	assert.Equal(t, 3*milli, measured.Quantile(0.99))
}

// A constant delay draws nothing and is what it was.
func TestAFixedDelayIsPlannedAsItIs(t *testing.T) {
	d := dispatch.Delay{Control: milli, PerRequest: milli / 10}
	assert.Equal(t, d, FixedDelay(d).Planned())
	assert.Equal(t, d.Of(7), FixedDelay(d).Draw(nil, 7))
	u := DrawnDelay{Message: Times{Most: 100 * milli}}
	assert.Equal(t, 99*milli, u.Planned().Control)
}
