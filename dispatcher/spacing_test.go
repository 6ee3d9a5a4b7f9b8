package dispatcher

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// What is measured of arrivals that are known, with threads that are late by up to 3 ms:
// 0 for even ones, 1 for Poisson, the inverse of gamma's shape.
func TestSpacingOfKnownArrivals(t *testing.T) {
	for _, rate := range []float64{3, 10, 30, 100, 600, 3000} {
		for text, want := range map[string]float64{"even": 0, "poisson": 1, "gamma:0.25": 4, "gamma:4": 0.25} {
			p, _, err := arrivals.Parse(text)
			require.NoError(t, err)
			at, err := p.Instants(rate, 300*time.Second, 7)
			require.NoError(t, err)
			jitter := rand.New(rand.NewPCG(7, 7))
			for i := range at {
				at[i] += time.Duration(jitter.Int64N(int64(3 * time.Millisecond)))
			}
			slices.Sort(at)
			got := measured(at)
			assert.InDelta(t, want, got.Variation, 0.15+0.3*want, "%s at %v/s", text, rate)
			assert.Greater(t, got.Compared, int64(500), "%s at %v/s", text, rate)
		}
	}
}

// A rate that doubles and halves within a minute is no burst.
func TestSpacingLeavesSlowChangesOut(t *testing.T) {
	var at []time.Duration
	for now, rate := time.Duration(0), 100.0; now < time.Minute; now += time.Duration(1e9 / rate) {
		if at = append(at, now); now < 30*time.Second {
			rate += 100 / 30.0 / rate
		} else {
			rate -= 100 / 30.0 / rate
		}
	}
	assert.Less(t, measured(at).Variation, 0.1)
	assert.Nil(t, measured(at[:2]))
	assert.Nil(t, measured(nil))
}

func measured(at []time.Duration) *autoscale.Gaps {
	var s ServiceStats
	s.Init(time.Hour, 0)
	for _, now := range at {
		s.Arrive(now, now)
	}
	m := autoscale.Measures{}
	s.Measure(slices.Max(append(at, 0))+1, &m)
	return m.Gaps
}
