package tc

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// behind has two executors of a group each, both busy until 16 ms, and six requests that wait,
// most of which the schedule gave to the first group; then the second executor is free.
func behind(slower dispatch.Time) (first, then []dispatch.Action) {
	table := func(times dispatch.Time) []dispatch.Time {
		return []dispatch.Time{times * 10 * ms, times * 12 * ms, times * 14 * ms, times * 16 * ms}
	}
	p := New(Options{Early: EarlyAlways, Rate: 400, Groups: []Group{
		{Batch: 4, Window: 10 * ms, Period: 10 * ms, Duration: 16 * ms, Durations: table(1)},
		{Batch: 4, Window: 40 * ms, Period: 40 * ms, Duration: 16 * ms * slower, Durations: table(slower)},
	}})
	for i := range 2 {
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(i), Group: int32(i), Alone: true}, nil)
	}
	step := func(at dispatch.Time, ids ...dispatch.RequestID) (out []dispatch.Action) {
		for i, id := range ids {
			ev := arrive(id, at, 0)
			ev.More = i < len(ids)-1
			out = p.Step(at, ev, out)
		}
		return out
	}
	first = append(step(0, 1, 2, 3, 4), step(0, 5, 6, 7, 8)...)
	first = append(first, step(2*ms, 9, 10, 11, 12, 13, 14)...)
	return first, p.Step(15*ms, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: 1, Took: 15 * ms}, nil)
}

// An executor that is free takes the oldest that wait, whichever group they were given to.
func TestAnIdleExecutorStealsFromOtherGroups(t *testing.T) {
	first, then := behind(1)
	assert.Equal(t, []int{4, 4}, starts(first), "both are busy")
	if assert.Equal(t, []int{4}, starts(then)) {
		assert.Equal(t, []dispatch.RequestID{9, 10, 11, 12}, then[0].Batch)
	}
}

// What would be done later there than where it waits stays.
func TestASlowExecutorStealsNothing(t *testing.T) {
	_, then := behind(10)
	for _, a := range then {
		assert.False(t, a.Act == dispatch.Start && len(a.Batch) == 4, "%v", a)
	}
}
