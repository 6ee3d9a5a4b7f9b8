package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// A jitter lets items of several periods come at once: devices for all of these are looked at.
func TestDevicesForBurstsWithAJitter(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		bursts           demand.Bursts
		batch            int
		duration, budget time.Duration
	}{
		"spread over a period": {demand.Bursts{Items: 1, Gap: 0.0025, Any: true, Jitter: 0.09}, 1, 2 * ms, 10 * ms},
		"of any phases":        {demand.Bursts{Items: 40, Gap: 0.1, Any: true, Jitter: 0.09}, 8, 50 * ms, 110 * ms},
		"without":              {demand.Bursts{Items: 40, Gap: 0.1, Any: true}, 8, 50 * ms, 110 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			m := ModuleProblem{Rate: float64(c.bursts.Items) / c.bursts.Gap, Bursts: c.bursts}
			config := Config{Batch: c.batch, Concurrency: 1, Duration: c.duration}
			latency := func(n int) float64 { unmixed, _ := m.InBursts(&config, n); return unmixed }
			n, ok := m.DevicesForBursts(&config, c.budget, latency)
			assert.True(t, ok)
			assert.LessOrEqual(t, latency(n), c.budget.Seconds())
			assert.Greater(t, latency(n-1), c.budget.Seconds(), "fewer do not suffice")
		})
	}
}
