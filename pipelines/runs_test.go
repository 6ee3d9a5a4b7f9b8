package pipelines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStuckIsTenTimesTheSlowestRun(t *testing.T) {
	ms := time.Millisecond
	p := Profile{Points: []Point{
		{Hardware: "gpu", Batch: 4, Duration: 20 * ms, Spread: 5 * ms},
		{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 10 * ms, Spread: 30 * ms},
		{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 60 * ms},
		{Hardware: "gpu", Batch: 8, Concurrency: 2, Duration: 90 * ms},
		{Hardware: "cpu", Batch: 1, Duration: time.Second},
	}}
	one := p.SlowestRuns("gpu", 1)
	require.Equal(t, 400*ms, one.Stuck(1))
	require.Equal(t, 400*ms, one.Stuck(3), "a larger batch is not given less time than a smaller one")
	require.Equal(t, 600*ms, one.Stuck(8))
	require.Equal(t, 600*ms, one.Stuck(9))
	require.Equal(t, 900*ms, p.SlowestRuns("gpu", 2).Stuck(8))
	require.Zero(t, p.SlowestRuns("tpu", 1).Stuck(1), "nothing is known")
}
