package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// BenchmarkRun plays 20,000 queries to 6 and 60 instances near the goodput.
func BenchmarkRun(b *testing.B) {
	mix := pipelines.Mix{{Size: 5, Weight: 5}, {Size: 20, Weight: 3}, {Size: 40, Weight: 1}, {Size: 80, Weight: 0.5}}
	l := Draw(mix, 20_000, publishedArrivals(), 1)
	for name, p := range map[string]TrialPool{"6": pair(2, 4), "60": pair(20, 40)} {
		rate := 38 * float64(p.Instances())
		b.Run(name, func(b *testing.B) {
			events := int64(0)
			for b.Loop() {
				r, err := runTrial(p, kairos(b, p, true)(), l, rate, simulate.Options{})
				require.NoError(b, err)
				events += r.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
