package tc_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// Two requests fill a batch; a third waits for its window to end.
func ExampleNew() {
	policy := tc.New(tc.Options{Groups: []tc.Group{
		{Batch: 2, Window: 40 * time.Millisecond, Duration: 20 * time.Millisecond},
	}})
	step := func(ms int, ev dispatch.Event) {
		now := time.Duration(ms) * time.Millisecond
		if ev.Kind == dispatch.Arrive {
			ev.Request.Arrival, ev.Request.Deadline = now, now+100*time.Millisecond
		}
		for _, action := range policy.Step(now, ev, nil) {
			fmt.Printf("%dms %v\n", ms, action)
		}
	}
	step(0, dispatch.Event{Kind: dispatch.ExecutorUp})
	step(1, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 1}})
	step(5, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 2}})
	step(9, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 3}})
	step(25, dispatch.Event{Kind: dispatch.ExecutorFree})
	step(41, dispatch.Event{Kind: dispatch.Timer})
	step(49, dispatch.Event{Kind: dispatch.Timer})
	// Output:
	// 1ms timer at 41ms
	// 5ms start [1 2] on executor 0 of group 0
	// 41ms timer at 49ms
	// 49ms start [3] on executor 0 of group 0
}
