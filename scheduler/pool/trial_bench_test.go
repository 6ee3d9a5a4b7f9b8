package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// BenchmarkRun plays 20,000 queries to 6 and 60 instances near the goodput. With
// ribbon, which decides next to nothing, it shows what the simulator takes.
func BenchmarkRun(b *testing.B) {
	mix := pipelines.Mix{{Size: 5, Weight: 5}, {Size: 20, Weight: 3}, {Size: 40, Weight: 1}, {Size: 80, Weight: 0.5}}
	l := Draw(mix, 20_000, publishedArrivals(), 1)
	for name, p := range map[string]TrialPool{"6": pair(2, 4), "60": pair(20, 40)} {
		rate := 38 * float64(p.Instances())
		for policy, make := range map[string]func() dispatch.Policy{
			"matching": kairos(b, p, true), "ribbon": func() dispatch.Policy { return p.Ribbon(80) },
		} {
			b.Run(policy+"/"+name, func(b *testing.B) {
				events := int64(0)
				for b.Loop() {
					r, err := runTrial(p, make(), l, rate, simulate.Options{})
					require.NoError(b, err)
					events += r.Events
				}
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
