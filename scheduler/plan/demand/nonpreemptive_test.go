package demand

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNonPreemptive(t *testing.T) {
	tests := []struct {
		name  string
		tasks []Task
		sound bool
	}{
		{"nothing", nil, true},
		{"one, just in time", []Task{{10, 10, 10, 0}}, true},
		{"one, too slow", []Task{{11, 10, 20, 0}}, false},
		{"due before it can be done", []Task{{5, 10, 4, 0}}, false},
		{"two halves", []Task{{5, 10, 10, 0}, {5, 10, 10, 0}}, true},
		{"blocked by a long one", []Task{{1, 10, 5, 0}, {6, 100, 100, 0}}, false},
		{"blocked no longer than it can bear", []Task{{1, 10, 7, 0}, {6, 100, 100, 0}}, true},
		{"fully used, periods without a common multiple", []Task{{1, 2, 2, 0}, {math.Sqrt2 / 2, math.Sqrt2, 10, 0}}, false},
		{"not a number", []Task{{math.NaN(), 1, 1, 0}}, false},
	}
	for _, tt := range tests {
		v := NonPreemptive(tt.tasks)
		assert.Equal(t, tt.sound, v.Sound, "%s: %s", tt.name, v.Describe())
	}
}

// The twin plays every batch on one device: all released together, and once
// for every task with its longest rival just started.
func TestNonPreemptiveAgainstASimulation(t *testing.T) {
	sound, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var tasks []Task
		for range rapid.IntRange(1, 4).Draw(t, "tasks") {
			c := float64(rapid.IntRange(1, 6).Draw(t, "duration"))
			tasks = append(tasks, Task{
				Duration: c, Period: float64(rapid.IntRange(2, 24).Draw(t, "period")),
				Deadline: c + float64(rapid.IntRange(0, 30).Draw(t, "slack")),
			})
		}
		use := 0.0
		for _, c := range tasks {
			use += c.Duration / c.Period
		}
		if use > 1 {
			require.False(t, NonPreemptive(tasks).Sound)
			return
		}
		late := false
		for blocker := -1; blocker < len(tasks); blocker++ {
			late = late || !play(tasks, blocker)
		}
		if NonPreemptive(tasks).Sound {
			sound++
			require.False(t, late, "%v", tasks)
		} else {
			refused++
			require.True(t, late, "%v is refused: %s", tasks, NonPreemptive(tasks).Reason)
		}
	})
	t.Logf("%d sound, %d refused", sound, refused)
	assert.NotZero(t, sound)
	assert.NotZero(t, refused)
}

// play reports whether all batches are in time when the blocker has just started
// and all others are released at once.
func play(tasks []Task, blocker int) bool {
	const tiny = 1e-6
	now, next, run := 0.0, make([]float64, len(tasks)), make([]int, len(tasks)) // batches of the last burst that have run
	took := func(i int) {
		if run[i]++; run[i] >= tasks[i].AtOnce {
			run[i], next[i] = 0, next[i]+tasks[i].Period
		}
	}
	if blocker >= 0 {
		next[blocker] = -tiny
		took(blocker)
		now = tasks[blocker].Duration - tiny
		if now > tasks[blocker].Deadline {
			return false
		}
	}
	for now < 3000 {
		pick, soonest := -1, math.Inf(1)
		for i, c := range tasks {
			soonest = math.Min(soonest, next[i])
			if next[i] <= now && (pick < 0 || next[i]+c.Deadline < next[pick]+tasks[pick].Deadline) {
				pick = i
			}
		}
		if pick < 0 {
			now = soonest
			continue
		}
		now += tasks[pick].Duration
		if now > next[pick]+tasks[pick].Deadline+10*tiny {
			return false
		}
		took(pick)
	}
	return true
}

func BenchmarkNonPreemptive(b *testing.B) {
	tasks := []Task{{0.010, 0.080, 0.100, 0}, {0.015, 0.100, 0.120, 0}, {0.005, 0.050, 0.060, 0}, {0.020, 0.200, 0.150, 0}}
	b.ReportAllocs()
	for b.Loop() {
		NonPreemptive(tasks)
	}
}

// A batch with a distant deadline is what Slack is about: tasks bear it exactly
// up to their slack.
func TestSlackIsWhatTasksBear(t *testing.T) {
	assert.Equal(t, math.Inf(1), Slack(nil))
	assert.Zero(t, Slack([]Task{{math.NaN(), 1, 1, 0}}))
	assert.Zero(t, Slack([]Task{{10, 10, 30, 0}}), "fully used")
	assert.InDelta(t, 4, Slack([]Task{{1, 10, 5, 0}}), 1e-12)
	rapid.Check(t, func(t *rapid.T) {
		var tasks []Task
		for range rapid.IntRange(1, 4).Draw(t, "tasks") {
			c := float64(rapid.IntRange(1, 6).Draw(t, "duration"))
			tasks = append(tasks, Task{
				Duration: c, Period: float64(rapid.IntRange(2, 24).Draw(t, "period")),
				Deadline: c + float64(rapid.IntRange(0, 30).Draw(t, "spare")),
			})
		}
		if !NonPreemptive(tasks).Sound {
			return
		}
		bears := func(d float64) bool {
			const distant = 1e5
			return NonPreemptive(append(tasks[:len(tasks):len(tasks)], Task{Duration: d, Period: distant, Deadline: distant})).Sound
		}
		s := Slack(tasks)
		if s > 0 {
			require.True(t, bears(s), "slack %v of %v", s, tasks)
		}
		use := 0.0
		for _, c := range tasks {
			use += c.Duration / c.Period
		}
		if use < 1-1e-3 {
			require.False(t, bears(s+1e-3), "more than the slack %v of %v", s, tasks)
		}
	})
}
