package demand

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawBursts draws a stream in whole milliseconds, and executors that keep up with it.
func drawBursts(t *rapid.T, batches func(k, b int) float64) (b Bursts, batch, n int, duration float64) {
	b = Bursts{Items: rapid.IntRange(1, 24).Draw(t, "items"), Gap: float64(rapid.IntRange(5, 200).Draw(t, "gap"))}
	batch, duration = rapid.IntRange(1, 10).Draw(t, "batch"), float64(rapid.IntRange(1, 60).Draw(t, "duration"))
	least := int(math.Ceil(batches(b.Items, batch) * duration / b.Gap))
	return b, batch, least + rapid.IntRange(0, 4).Draw(t, "more"), duration
}

// playBatches runs batches in their order on n executors, and returns the latest that one ends
// after its first item came.
func playBatches(first, ready []float64, n int, duration float64) float64 {
	free, worst := make([]float64, n), 0.0
	for i := range ready {
		at := slices.Index(free, slices.Min(free))
		free[at] = max(free[at], ready[i]) + duration
		worst = max(worst, free[at]-first[i])
	}
	return worst
}

func TestUnmixedAgainstFirstInFirstOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, batch, n, duration := drawBursts(t, func(k, b int) float64 { return math.Ceil(float64(k) / float64(b)) })
		m := (b.Items + batch - 1) / batch
		var ready []float64
		for i := range 400 {
			for range m {
				ready = append(ready, float64(i)*b.Gap)
			}
		}
		assert.InDelta(t, playBatches(ready, ready, n, duration), b.Unmixed(m, n, duration), 1e-6)
		assert.True(t, math.IsInf(b.Unmixed(m, int(math.Ceil(float64(m)*duration/b.Gap))-1, duration), 1), "one executor too few")
	})
}

func TestBatchesAreTheMostInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bursts{Items: 1, Gap: float64(rapid.IntRange(5, 100).Draw(t, "gap"))}
		n, duration := rapid.IntRange(1, 6).Draw(t, "executors"), float64(rapid.IntRange(1, 40).Draw(t, "duration"))
		latency := float64(rapid.IntRange(0, 200).Draw(t, "latency"))
		got := b.Batches(n, duration, latency)
		if got > 0 {
			require.LessOrEqual(t, b.Unmixed(got, n, duration), latency+1e-6)
		}
		require.Greater(t, b.Unmixed(got+1, n, duration), latency-1e-6)
		if latency <= b.Gap && duration <= latency {
			require.Equal(t, min(n*int(latency/duration), int(float64(n)*b.Gap/duration)), got, "bursts stay apart")
		}
	})
}

// What Cannot rules out, no first in, first out does either.
func TestCannotRulesOutNothingThatIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, batch, n, duration := drawBursts(t, func(k, b int) float64 { return math.Ceil(float64(k) / float64(b)) })
		latency := b.Unmixed((b.Items+batch-1)/batch, n, duration)
		assert.False(t, b.Cannot(latency, func(time float64) float64 {
			return float64(n*batch) * math.Floor(time/duration+1e-9)
		}))
	})
}

func TestManyStepsAreBounded(t *testing.T) {
	b := Bursts{Items: 1 << 20, Gap: 1}
	assert.InDelta(t, 1, b.Unmixed(1<<20, 1<<19+1, 0.25), 1.1)
}

func TestTasksOfBursts(t *testing.T) {
	crops, detect := Task{Duration: 18, Period: 200, Deadline: 77, AtOnce: 4}, Task{Duration: 5, Period: 200, Deadline: 23}
	assert.True(t, NonPreemptive([]Task{crops, detect}).Sound)
	crops.Deadline = 76.9
	assert.False(t, NonPreemptive([]Task{crops, detect}).Sound, "detect may come with them")
	assert.False(t, NonPreemptive([]Task{{Duration: 18, Period: 200, Deadline: 71, AtOnce: 4}}).Sound)
	assert.InDelta(t, 77-72-5, Slack([]Task{{Duration: 18, Period: 200, Deadline: 77, AtOnce: 4}, detect}), 1e-9)

	crops.Deadline = 72
	assert.True(t, InPhase([]Phased{{Task: crops, Offset: 28}, {Task: detect}}).Sound, "one after the other")
	assert.False(t, InPhase([]Phased{{Task: crops, Offset: 4}, {Task: detect}}).Sound)
	assert.False(t, InPhase([]Phased{{Task: crops, Offset: 130}, {Task: detect}}).Sound, "the next picture may come in between")
}

// The twin plays bursts with every phase of a grid, and each with every blocker just begun.
func TestTasksOfBurstsAgainstASimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tasks []Task
		for range rapid.IntRange(1, 3).Draw(t, "tasks") {
			c, n := float64(rapid.IntRange(1, 4).Draw(t, "duration")), rapid.IntRange(1, 4).Draw(t, "batches")
			tasks = append(tasks, Task{
				Duration: c, Period: float64(rapid.IntRange(4, 30).Draw(t, "period")), AtOnce: n,
				Deadline: c*float64(n) + float64(rapid.IntRange(0, 30).Draw(t, "slack")),
			})
		}
		if !NonPreemptive(tasks).Sound {
			return
		}
		for blocker := -1; blocker < len(tasks); blocker++ {
			require.True(t, play(tasks, blocker), "%v with %d begun", tasks, blocker)
		}
		slack := Slack(tasks)
		require.GreaterOrEqual(t, slack, 0.0)
	})
}
