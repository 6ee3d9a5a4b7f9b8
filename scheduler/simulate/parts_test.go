package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

func TestIntervals(t *testing.T) {
	w := wilson(81, 263, 0.95) // Newcombe, Statistics in Medicine 17, 1998, table II
	assert.InDelta(t, 0.2553, w.Low, 1e-4)
	assert.InDelta(t, 0.3662, w.High, 1e-4)
	w = wilson(0, 20, 0.95)
	assert.InDelta(t, 0, w.Low, 1e-4)
	assert.InDelta(t, 0.1611, w.High, 1e-4)
	assert.Equal(t, Interval{0, 1, 0.9}, wilson(0, 0, 0.9))
	assert.InDelta(t, 2.0395, studentQuantile(0.975, 31), 0.002)
	assert.InDelta(t, 2.3646, studentQuantile(0.975, 7), 0.012)

	// Misses that come all at once are weaker evidence than as many spread evenly.
	var total, spread, burst [slicesOfTime]int64
	for i := range total {
		total[i], spread[i], burst[i] = 100, 99, 100
	}
	burst[3] -= slicesOfTime
	even, once := OverTime(spread[:], total[:], 0.95), OverTime(burst[:], total[:], 0.95)
	assert.Equal(t, wilson(99*slicesOfTime, 100*slicesOfTime, 0.95), even)
	assert.Less(t, once.Low, even.Low)
	assert.Greater(t, once.High, even.High)
}

func instants(a arrivals.Process, rate float64, end time.Duration) []Time {
	s := a.Stream(rate, end, RandomSource(1, ForArrivals, 0))
	var all []Time
	for at := s.Next(); at < end; at = s.Next() {
		all = append(all, at)
	}
	return all
}

func TestStreams(t *testing.T) {
	even := instants(arrivals.Process{}, 3, 10*time.Second)
	assert.Len(t, even, 30)
	assert.Equal(t, []Time{0, 333333333, 666666667, 1e9}, even[:4])

	for _, shape := range []float64{0.05, 0.5, 1, 4} {
		all := instants(arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: shape}, 1000, 400*time.Second)
		assert.InEpsilon(t, 400_000, len(all), 0.03, "shape %v", shape)
		var sum, squares float64
		for i := 1; i < len(all); i++ {
			gap := (all[i] - all[i-1]).Seconds() * 1000
			sum, squares = sum+gap, squares+gap*gap
		}
		n := float64(len(all) - 1)
		variation := math.Sqrt(squares/n-math.Pow(sum/n, 2)) / (sum / n)
		assert.InEpsilon(t, 1/math.Sqrt(shape), variation, 0.03, "shape %v", shape)
	}
	trace := arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: &pipelines.Trace{Seconds: []int64{1, 4}, Counts: []float64{3, 2}}}
	counts := map[int]int{}
	all := instants(trace, 0, 10*time.Second) // repeated once
	for _, at := range all {
		counts[int(at/time.Second)]++
	}
	assert.Equal(t, map[int]int{1: 3, 4: 2, 6: 3, 9: 2}, counts)
	assert.True(t, slices.IsSorted(all))
	assert.InEpsilon(t, 10_000, len(instants(trace, 1000, 10*time.Second)), 0.01)

	replay := arrivals.Process{Kind: arrivals.Replay, Stamps: []time.Duration{0, 1, 1e9, 2e9 - 1}}
	assert.Equal(t, []Time{0, 1, 1e9, 2e9 - 1}, instants(replay, 0, time.Hour))
	assert.Equal(t, Time(5e8), instants(replay, 4, time.Hour)[2], "twice as fast")
}

func TestFanout(t *testing.T) {
	r := RandomSource(1, ForFanout, 0)
	for _, how := range []Spread{SpreadPoisson, SpreadNear} {
		for _, m := range []pipelines.Module{
			{Fanout: 0}, {Fanout: 0.3}, {Fanout: 1.8}, {Fanout: 3}, {Fanout: 20.5},
			{Fanout: 0.3, Most: 1}, {Fanout: 1.8, Most: 8}, {Fanout: 3, Most: 5}, {Fanout: 20.5, Most: 21}, {Fanout: 6, Most: 6},
		} {
			sum, most := 0, 0
			for range 20_000 {
				k := DrawFanout(r, &m, how)
				sum, most = sum+k, max(most, k)
				if m.Fanout == math.Floor(m.Fanout) && m.Most == 0 {
					require.EqualValues(t, m.Fanout, k)
				}
				if how == SpreadNear {
					require.LessOrEqual(t, math.Abs(float64(k)-m.Fanout), 1.0)
				}
			}
			assert.InDelta(t, m.Fanout, float64(sum)/20_000, 0.02*math.Max(1, m.Fanout))
			if m.Most > 0 {
				assert.LessOrEqual(t, most, m.Most)
			}
		}
	}
}

func TestStretch(t *testing.T) {
	r := RandomSource(1, ForNoise, 0)
	var sum, squares float64
	for range 100_000 {
		x := drawStretch(r, 0.2)
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / 100_000
	assert.InDelta(t, 1, mean, 0.005)
	assert.InDelta(t, 0.2, math.Sqrt(squares/100_000-mean*mean), 0.005)
}
