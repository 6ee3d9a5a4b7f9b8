package grouped

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestGroupedKeepsTimeouts drives the policy with random arrivals, and as many
// executors as there are requests: every request leaves at its own timeout at
// the latest, in a batch of its own group that is full or holds a request whose
// timeout passes now.
func TestGroupedKeepsTimeouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Options
		class := int32(0)
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			g := Group{Batch: rapid.IntRange(1, 5).Draw(t, "batch"), Duration: 10}
			for range rapid.IntRange(1, 3).Draw(t, "applications") {
				g.Applications = append(g.Applications, Application{Class: class, Timeout: dispatch.Time(rapid.IntRange(0, 40).Draw(t, "timeout")), SLO: 100})
				class++
			}
			o.Groups = append(o.Groups, g)
		}
		require.NoError(t, o.Check())
		p := New(o)
		const executors = 100
		for g := range o.Groups {
			for e := range executors {
				p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(g*executors + e), Group: int32(g)}, nil)
			}
		}
		type sent struct {
			group int
			leave dispatch.Time
		}
		waiting := map[dispatch.RequestID]sent{}
		timer := never
		take := func(now dispatch.Time, actions []dispatch.Action) {
			for _, a := range actions {
				switch a.Act {
				case dispatch.SetTimer:
					timer = a.At
				case dispatch.Drop:
					t.Fatalf("request %d is dropped as %v", a.Request, a.Reason)
				case dispatch.Start:
					g := o.Groups[a.Group]
					due := len(a.Batch) == g.Batch
					assert.LessOrEqual(t, len(a.Batch), g.Batch)
					for _, id := range a.Batch {
						w, ok := waiting[id]
						require.True(t, ok, "request %d starts once", id)
						assert.Equal(t, int(a.Group), w.group)
						assert.LessOrEqual(t, now, w.leave)
						due = due || w.leave == now
						delete(waiting, id)
					}
					assert.True(t, due, "the batch has a reason to leave at %d", now)
				}
			}
		}
		now := dispatch.Time(0)
		for id := range rapid.IntRange(1, 60).Draw(t, "requests") {
			next := now + dispatch.Time(rapid.IntRange(0, 20).Draw(t, "gap"))
			for timer <= next {
				now, timer = timer, never
				take(now, p.Step(now, dispatch.Event{Kind: dispatch.Timer}, nil))
			}
			now = next
			c := int32(rapid.IntRange(0, int(class)-1).Draw(t, "class"))
			for g := range o.Groups {
				for _, a := range o.Groups[g].Applications {
					if a.Class == c {
						waiting[dispatch.RequestID(id)] = sent{g, now + a.Timeout}
					}
				}
			}
			take(now, p.Step(now, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(id), Class: c, Arrival: now}}, nil))
		}
		for timer != never {
			now, timer = timer, never
			take(now, p.Step(now, dispatch.Event{Kind: dispatch.Timer}, nil))
		}
		assert.Empty(t, waiting)
		assert.Zero(t, p.Len())
	})
}

// TestGroupedLosesNothing drives the policy with few executors that come and
// go: every request ends in exactly one outcome, and nothing starts on an
// executor that is busy, or that would end late.
func TestGroupedLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxQueue: 12, Groups: []Group{
			{Batch: 3, Duration: 20, Applications: []Application{{Class: 0, Timeout: 10, SLO: 50}, {Class: 1, Timeout: 30, SLO: 60}}},
			{Batch: 1, Duration: 5, Applications: []Application{{Class: 2, SLO: 20}}},
		}}
		p := New(o)
		deadline := map[dispatch.RequestID]dispatch.Time{}
		ended := map[dispatch.RequestID]bool{}
		group, busy := map[dispatch.ExecutorID]int32{}, map[dispatch.ExecutorID]bool{}
		end := func(id dispatch.RequestID) {
			require.False(t, ended[id], "request %d ends twice", id)
			require.Contains(t, deadline, id)
			ended[id] = true
		}
		now := dispatch.Time(0)
		step := func(ev dispatch.Event) {
			for _, a := range p.Step(now, ev, nil) {
				switch a.Act {
				case dispatch.Drop:
					end(a.Request)
				case dispatch.Start:
					g, up := group[a.Executor]
					require.True(t, up && !busy[a.Executor])
					require.Equal(t, g, a.Group)
					busy[a.Executor] = true
					for _, id := range a.Batch {
						end(id)
						assert.LessOrEqual(t, now+o.Groups[g].Duration, deadline[id])
					}
				}
			}
		}
		for i := range rapid.IntRange(1, 120).Draw(t, "events") {
			now += dispatch.Time(rapid.IntRange(0, 8).Draw(t, "gap"))
			e := dispatch.ExecutorID(rapid.IntRange(0, 2).Draw(t, "executor"))
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				if _, up := group[e]; !up {
					group[e] = int32(e) % 2
					step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: e, Group: group[e]})
				}
			case 1:
				if busy[e] {
					delete(busy, e)
					step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: e})
				}
			case 2:
				if _, up := group[e]; up {
					delete(group, e)
					delete(busy, e)
					step(dispatch.Event{Kind: dispatch.ExecutorGone, Executor: e})
				}
			case 3:
				step(dispatch.Event{Kind: dispatch.Timer})
			case 4:
				id := dispatch.RequestID(rapid.IntRange(0, i).Draw(t, "cancel"))
				if _, known := deadline[id]; known && !ended[id] {
					end(id)
					step(dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: id}})
				}
			default:
				c := int32(rapid.IntRange(0, 2).Draw(t, "class"))
				deadline[dispatch.RequestID(i)] = now + []dispatch.Time{50, 60, 20}[c]
				step(dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(i), Class: c, Arrival: now}})
			}
			assert.Equal(t, len(deadline)-len(ended), p.Len())
		}
		now += 1000
		step(dispatch.Event{Kind: dispatch.Timer})
		assert.Zero(t, p.Len(), "what waits for executors that do not come is dropped as late")
	})
}

func TestGroupedOptions(t *testing.T) {
	one := Group{Batch: 2, Duration: 50 * time.Millisecond, Applications: []Application{{Class: 0, Timeout: 10 * time.Millisecond, SLO: 60 * time.Millisecond}}}
	assert.NoError(t, Options{Groups: []Group{one}}.Check())
	assert.ErrorContains(t, Options{}.Check(), "at least one group")
	assert.ErrorContains(t, Options{Groups: []Group{one, one}}.Check(), "class 0 is in group 0 already")
	slow := one
	slow.Duration = time.Second
	assert.ErrorContains(t, Options{Groups: []Group{slow}}.Check(), "longer than its SLO")
	assert.ErrorContains(t, Options{Groups: []Group{{Batch: 0}}}.Check(), "at least one request")
}

func BenchmarkGrouped(b *testing.B) {
	p := New(Options{Groups: []Group{{Batch: 8, Duration: time.Millisecond, Applications: []Application{{Class: 0, Timeout: time.Second}}}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	out := make([]dispatch.Action, 0, 16)
	id := dispatch.RequestID(0)
	b.ReportAllocs()
	for b.Loop() {
		id++
		out = p.Step(dispatch.Time(id), dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Arrival: dispatch.Time(id)}}, out[:0])
		if id%8 == 0 {
			out = p.Step(dispatch.Time(id), dispatch.Event{Kind: dispatch.ExecutorFree}, out[:0])
		}
	}
}

func ExampleNew() {
	p := New(Options{Groups: []Group{{
		Batch: 3, Duration: 100 * time.Millisecond,
		Applications: []Application{{Class: 0, Timeout: 300 * time.Millisecond}, {Class: 1, Timeout: 50 * time.Millisecond}},
	}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0}, nil)
	for _, a := range p.Step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 1, Class: 0}}, nil) {
		fmt.Println(a)
	}
	at := 10 * time.Millisecond
	for _, a := range p.Step(at, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: 2, Class: 1, Arrival: at}}, nil) {
		fmt.Println(a)
	}
	for _, a := range p.Step(60*time.Millisecond, dispatch.Event{Kind: dispatch.Timer}, nil) {
		fmt.Println(a)
	}
	// Output:
	// timer at 300ms
	// timer at 60ms
	// start [2 1] on executor 0 of group 0
}
