package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestFrontendsDealByThemselves: one frontend deals evenly, several together do not, and each
// executor gets its share in the end.
func TestFrontendsDealByThemselves(t *testing.T) {
	const executors, requests, sweep = 10, 20_000, 100
	widest := map[int]int{}
	for _, frontends := range []int{1, 25} {
		p := NewNexus(NexusOptions{Options: Options{Models: []Model{{Durations: Linear(time.Millisecond, time.Millisecond, 64), SLO: time.Second, Rate: 1000}}}, Frontends: frontends})
		for id := range dispatch.ExecutorID(executors) {
			p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id}, nil)
		}
		all, some := map[dispatch.ExecutorID]int{}, map[dispatch.ExecutorID]int{}
		for i := range requests {
			for _, a := range p.Step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(i + 1)}}, nil) {
				if a.Act == dispatch.Start {
					all[a.Executor]++
					some[a.Executor]++
					p.Step(0, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: a.Executor}, nil)
				}
			}
			if (i+1)%sweep == 0 {
				for _, n := range some {
					widest[frontends] = max(widest[frontends], n-sweep/executors)
				}
				clear(some)
			}
		}
		assert.Len(t, all, executors)
		for id, n := range all {
			assert.InDelta(t, requests/executors, n, 10, "frontends %d, executor %d", frontends, id)
		}
	}
	assert.LessOrEqual(t, widest[1], 1)
	assert.Greater(t, widest[25], 2)
}

// TestClockworkTakesSizes: of seven that wait and fit, all, any number of them, or four.
func TestClockworkTakesSizes(t *testing.T) {
	seen := map[Sizes]map[int]bool{}
	for _, sizes := range []Sizes{LargestSize, AnySize, DoubledSizes} {
		seen[sizes] = map[int]bool{}
		for first := range 50 {
			p := NewClockwork(ClockworkOptions{Options: Options{Models: []Model{{Durations: Linear(time.Millisecond, time.Millisecond, 64), SLO: time.Second}}}, Sizes: sizes})
			for i := range 7 {
				p.Step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(10*first + i + 1)}}, nil)
			}
			for _, a := range p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil) {
				if a.Act == dispatch.Start {
					seen[sizes][len(a.Batch)] = true
				}
			}
		}
	}
	assert.Equal(t, map[int]bool{7: true}, seen[LargestSize])
	assert.Equal(t, map[int]bool{4: true}, seen[DoubledSizes])
	assert.Len(t, seen[AnySize], 7)
}
