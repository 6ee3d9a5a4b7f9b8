package shared_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// A batch of b takes 10 ms + b·2 ms and is due 50 ms after its first request.
// Held back until 34 ms the two requests could still take in a third one.
func ExampleNew() {
	policy, err := shared.New("deferred", shared.Options{Models: []shared.Model{
		{Durations: shared.Linear(2*time.Millisecond, 10*time.Millisecond, 8), SLO: 50 * time.Millisecond},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	step := func(ms int, ev dispatch.Event) {
		now := time.Duration(ms) * time.Millisecond
		if ev.Kind == dispatch.Arrive {
			ev.Request.Arrival, ev.Request.Deadline = now, now+50*time.Millisecond
		}
		for _, action := range policy.Step(now, ev, nil) {
			fmt.Printf("%dms %v\n", ms, action)
		}
	}
	step(0, dispatch.Event{Kind: dispatch.ExecutorUp})
	step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 1}})
	step(5, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 2}})
	step(34, dispatch.Event{Kind: dispatch.Timer})
	// Output:
	// 0ms timer at 36ms
	// 5ms timer at 34ms
	// 34ms start [1 2] on executor 0 of group 0
}

// Overload does not make batches small: the oldest requests go, so that
// the batch has its target size.
func ExampleNewAdaptive() {
	policy := shared.NewAdaptive(shared.Options{Models: []shared.Model{
		{Durations: shared.Linear(2*time.Millisecond, 10*time.Millisecond, 8), SLO: 50 * time.Millisecond, Rate: 300},
	}})
	for id := range 12 {
		at := time.Duration(id) * 2 * time.Millisecond
		policy.Step(at, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(id), Arrival: at, Deadline: at + 50*time.Millisecond}}, nil)
	}
	for _, action := range policy.Step(32*time.Millisecond, dispatch.Event{Kind: dispatch.ExecutorUp}, nil) {
		if action.Act != dispatch.SetTimer {
			fmt.Println(action)
		}
	}
	// Output:
	// start [4 5 6 7 8 9 10 11] on executor 0 of group 0
	// drop 0: late
	// drop 1: late
	// drop 2: late
	// drop 3: late
}
