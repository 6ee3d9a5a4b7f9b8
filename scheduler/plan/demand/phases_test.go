package demand

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What comes as a device ends may find it idle, and then the one due later may begin.
func TestWhatComesAsADeviceEnds(t *testing.T) {
	before := Phased{Task: Task{Duration: 0.270525, Period: 0.5, Deadline: 0.270525}}
	soon := Phased{Task: Task{Duration: 0.027754, Period: 0.5, Deadline: 0.027754}, Offset: 0.270525001}
	late := Phased{Task: Task{Duration: 0.010472, Period: 0.5, Deadline: 0.048729}, Offset: 0.270525001}
	assert.True(t, InPhase([]Phased{before, soon}).Sound)
	assert.False(t, InPhase([]Phased{before, soon, late}).Sound)
	soon.Deadline += late.Duration
	assert.True(t, InPhase([]Phased{before, soon, late}).Sound)
	soon.Deadline, before.Deadline, before.AtOnce = 0.027754, 0.3, 1
	before.Duration = 0.271
	soon.Deadline += 0.000475
	assert.True(t, InPhase([]Phased{before, soon, late}).Sound, "both wait, and the one due first begins")
}

func TestOneOfTwoBranches(t *testing.T) {
	when, not := []Condition{{When: "gate.found"}}, []Condition{{When: "gate.found", Else: true}}
	read := Phased{Task{Duration: 60, Period: 100, Deadline: 90}, 10, when}
	write := Phased{Task{Duration: 70, Period: 100, Deadline: 90}, 10, not}
	assert.True(t, InPhase([]Phased{read, write}).Sound, "one request takes one")
	assert.False(t, NonPreemptive([]Task{read.Task, write.Task}).Sound)
	write.Branch = when
	assert.False(t, InPhase([]Phased{read, write}).Sound, "or both")
	write.Branch = nil
	assert.False(t, InPhase([]Phased{read, write}).Sound)
	write.Branch = []Condition{{When: "gate.lost", Else: true}}
	assert.False(t, InPhase([]Phased{read, write}).Sound, "of two conditions all may come together")

	// Where requests overlap, the next one's other branch may hold up one of this.
	read.Deadline, write.Deadline, write.Branch = 130, 130, not
	assert.True(t, InPhase([]Phased{read, write}).Sound)
	read.Deadline, write.Deadline, read.Period, write.Period = 140, 160, 80, 80
	assert.True(t, InPhase([]Phased{read, write}).Sound)
	read.Deadline = 139
	assert.False(t, InPhase([]Phased{read, write}).Sound, "70 that are due later, and 60")
	read.Deadline, write.Period, read.Period = 160, 69, 69
	assert.False(t, InPhase([]Phased{read, write}).Sound, "no time for all that take one side")
	many := []Phased{read, write}
	for _, c := range []string{"a", "b", "c", "d", "e", "f"} {
		many = append(many, Phased{Task{Duration: 1, Period: 1000, Deadline: 900}, 10, []Condition{{When: c}}})
	}
	assert.False(t, InPhase(many).Sound, "too many ways")
}

// The twin plays requests that come no closer than a period, each of which takes some branch.
func TestInPhaseAgainstASimulation(t *testing.T) {
	sound := 0
	rapid.Check(t, func(t *rapid.T) {
		var tasks []Phased
		period := float64(rapid.IntRange(6, 30).Draw(t, "period"))
		for range rapid.IntRange(1, 4).Draw(t, "tasks") {
			c, n := float64(rapid.IntRange(1, 5).Draw(t, "duration")), rapid.IntRange(1, 3).Draw(t, "batches")
			one := Phased{Offset: float64(rapid.IntRange(0, 10).Draw(t, "offset")), Task: Task{
				Duration: c, Period: period, AtOnce: n, Deadline: c*float64(n) + float64(rapid.IntRange(0, 30).Draw(t, "slack")),
			}}
			for _, name := range []string{"a", "b"} {
				if rapid.IntRange(0, 2).Draw(t, "conditional") > 0 {
					one.Branch = append(one.Branch, Condition{name, rapid.Bool().Draw(t, "else")})
				}
			}
			tasks = append(tasks, one)
		}
		if !InPhase(tasks).Sound {
			return
		}
		sound++
		at := 0.0
		var jobs []batch
		for range 12 {
			holds := map[string]bool{"a": rapid.Bool().Draw(t, "a"), "b": rapid.Bool().Draw(t, "b")}
			for _, one := range tasks {
				if slices.ContainsFunc(one.Branch, func(c Condition) bool { return holds[c.When] == c.Else }) {
					continue
				}
				for range one.AtOnce {
					release := at + one.Offset
					jobs = append(jobs, batch{release, release + one.Deadline, one.Duration})
				}
			}
			at += period + float64(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(t, "later"))
		}
		runInTime(t, jobs)
	})
	require.Positive(t, sound)
}

type batch struct{ release, due, takes float64 }

// runInTime runs what is released and due first, of those that come to an idle device, or as it ends,
// any.
func runInTime(t *rapid.T, jobs []batch) {
	for now := 0.0; len(jobs) > 0; {
		var ready []int
		next := math.Inf(1)
		for i, j := range jobs {
			if next = math.Min(next, j.release); j.release <= now {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			now = next
			continue
		}
		at := slices.MinFunc(ready, func(a, b int) int { return cmp.Compare(jobs[a].due, jobs[b].due) })
		if next >= now {
			at = rapid.SampledFrom(ready).Draw(t, "first")
		}
		now += jobs[at].takes
		require.LessOrEqual(t, now, jobs[at].due)
		jobs = slices.Delete(jobs, at, at+1)
	}
}
