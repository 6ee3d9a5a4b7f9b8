package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestGroupedScripts plays the stories in testdata/grouped. A script starts
// with
//
//	grouped [max=N]
//	batch=2 duration=50ms 0:100ms 1:200ms     one line a group, CLASS:TIMEOUT
//
// and goes on as in TestTCScripts, with class=N on arrivals.
func TestGroupedScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/grouped", func(t *testing.T, path string) {
		var p Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "grouped":
				p = NewGrouped(parseGroups(t, d))
				return "ok\n"
			case "step":
				var b strings.Builder
				for line := range strings.Lines(d.Input) {
					now, ev := parseEvent(t, line)
					if _, class, ok := strings.Cut(line, "class="); ok {
						_, err := fmt.Sscan(class, &ev.Request.Class)
						require.NoError(t, err)
					}
					fmt.Fprintf(&b, "%s\n", strings.TrimSpace(line))
					for _, a := range p.Step(now, ev, nil) {
						fmt.Fprintf(&b, "  %v\n", a)
					}
				}
				return b.String()
			}
			return p.Describe()
		})
	})
}

func parseGroups(t *testing.T, d *datadriven.TestData) GroupedOptions {
	var o GroupedOptions
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	for line := range strings.Lines(d.Input) {
		var g FunctionGroup
		for _, field := range strings.Fields(line) {
			if key, value, ok := strings.Cut(field, "="); ok {
				if key == "duration" {
					g.Duration = parseTime(t, value)
					continue
				}
				_, err := fmt.Sscan(value, &g.Batch)
				require.NoError(t, err)
				continue
			}
			var a Waiting
			class, timeout, _ := strings.Cut(field, ":")
			_, err := fmt.Sscan(class, &a.Class)
			require.NoError(t, err)
			a.Timeout = parseTime(t, timeout)
			g.Applications = append(g.Applications, a)
		}
		o.Groups = append(o.Groups, g)
	}
	require.NoError(t, o.Check())
	return o
}

// TestGroupedKeepsTimeouts drives the policy with random arrivals, and as many
// executors as there are requests: every request leaves at its own timeout at
// the latest, in a batch of its own group that is full or holds a request whose
// timeout passes now.
func TestGroupedKeepsTimeouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o GroupedOptions
		class := int32(0)
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			g := FunctionGroup{Batch: rapid.IntRange(1, 5).Draw(t, "batch"), Duration: 10}
			for range rapid.IntRange(1, 3).Draw(t, "applications") {
				g.Applications = append(g.Applications, Waiting{Class: class, Timeout: Time(rapid.IntRange(0, 40).Draw(t, "timeout")), SLO: 100})
				class++
			}
			o.Groups = append(o.Groups, g)
		}
		require.NoError(t, o.Check())
		p := NewGrouped(o)
		const executors = 100
		for g := range o.Groups {
			for e := range executors {
				p.Step(0, Event{Kind: ExecutorUp, Executor: ExecutorID(g*executors + e), Group: int32(g)}, nil)
			}
		}
		type sent struct {
			group int
			leave Time
		}
		waiting := map[RequestID]sent{}
		timer := never
		take := func(now Time, actions []Action) {
			for _, a := range actions {
				switch a.Act {
				case SetTimer:
					timer = a.At
				case Drop:
					t.Fatalf("request %d is dropped as %v", a.Request, a.Reason)
				case Start:
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
		now := Time(0)
		for id := range rapid.IntRange(1, 60).Draw(t, "requests") {
			next := now + Time(rapid.IntRange(0, 20).Draw(t, "gap"))
			for timer <= next {
				now, timer = timer, never
				take(now, p.Step(now, Event{Kind: Timer}, nil))
			}
			now = next
			c := int32(rapid.IntRange(0, int(class)-1).Draw(t, "class"))
			for g := range o.Groups {
				for _, a := range o.Groups[g].Applications {
					if a.Class == c {
						waiting[RequestID(id)] = sent{g, now + a.Timeout}
					}
				}
			}
			take(now, p.Step(now, Event{Kind: Arrive, Request: Request{ID: RequestID(id), Class: c, Arrival: now}}, nil))
		}
		for timer != never {
			now, timer = timer, never
			take(now, p.Step(now, Event{Kind: Timer}, nil))
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
		o := GroupedOptions{MaxQueue: 12, Groups: []FunctionGroup{
			{Batch: 3, Duration: 20, Applications: []Waiting{{Class: 0, Timeout: 10, SLO: 50}, {Class: 1, Timeout: 30, SLO: 60}}},
			{Batch: 1, Duration: 5, Applications: []Waiting{{Class: 2, SLO: 20}}},
		}}
		p := NewGrouped(o)
		deadline := map[RequestID]Time{}
		ended := map[RequestID]bool{}
		group, busy := map[ExecutorID]int32{}, map[ExecutorID]bool{}
		end := func(id RequestID) {
			require.False(t, ended[id], "request %d ends twice", id)
			require.Contains(t, deadline, id)
			ended[id] = true
		}
		now := Time(0)
		step := func(ev Event) {
			for _, a := range p.Step(now, ev, nil) {
				switch a.Act {
				case Drop:
					end(a.Request)
				case Start:
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
			now += Time(rapid.IntRange(0, 8).Draw(t, "gap"))
			e := ExecutorID(rapid.IntRange(0, 2).Draw(t, "executor"))
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				if _, up := group[e]; !up {
					group[e] = int32(e) % 2
					step(Event{Kind: ExecutorUp, Executor: e, Group: group[e]})
				}
			case 1:
				if busy[e] {
					delete(busy, e)
					step(Event{Kind: ExecutorFree, Executor: e})
				}
			case 2:
				if _, up := group[e]; up {
					delete(group, e)
					delete(busy, e)
					step(Event{Kind: ExecutorGone, Executor: e})
				}
			case 3:
				step(Event{Kind: Timer})
			case 4:
				id := RequestID(rapid.IntRange(0, i).Draw(t, "cancel"))
				if _, known := deadline[id]; known && !ended[id] {
					end(id)
					step(Event{Kind: Cancel, Request: Request{ID: id}})
				}
			default:
				c := int32(rapid.IntRange(0, 2).Draw(t, "class"))
				deadline[RequestID(i)] = now + []Time{50, 60, 20}[c]
				step(Event{Kind: Arrive, Request: Request{ID: RequestID(i), Class: c, Arrival: now}})
			}
			assert.Equal(t, len(deadline)-len(ended), p.Len())
		}
		now += 1000
		step(Event{Kind: Timer})
		assert.Zero(t, p.Len(), "what waits for executors that do not come is dropped as late")
	})
}

func TestGroupedOptions(t *testing.T) {
	one := FunctionGroup{Batch: 2, Duration: 50 * time.Millisecond, Applications: []Waiting{{Class: 0, Timeout: 10 * time.Millisecond, SLO: 60 * time.Millisecond}}}
	assert.NoError(t, GroupedOptions{Groups: []FunctionGroup{one}}.Check())
	assert.ErrorContains(t, GroupedOptions{}.Check(), "at least one group")
	assert.ErrorContains(t, GroupedOptions{Groups: []FunctionGroup{one, one}}.Check(), "class 0 is in group 0 already")
	slow := one
	slow.Duration = time.Second
	assert.ErrorContains(t, GroupedOptions{Groups: []FunctionGroup{slow}}.Check(), "longer than its SLO")
	assert.ErrorContains(t, GroupedOptions{Groups: []FunctionGroup{{Batch: 0}}}.Check(), "at least one request")
}

func BenchmarkGrouped(b *testing.B) {
	p := NewGrouped(GroupedOptions{Groups: []FunctionGroup{{Batch: 8, Duration: time.Millisecond, Applications: []Waiting{{Class: 0, Timeout: time.Second}}}}})
	p.Step(0, Event{Kind: ExecutorUp}, nil)
	out := make([]Action, 0, 16)
	id := RequestID(0)
	b.ReportAllocs()
	for b.Loop() {
		id++
		out = p.Step(Time(id), Event{Kind: Arrive, Request: Request{ID: id, Arrival: Time(id)}}, out[:0])
		if id%8 == 0 {
			out = p.Step(Time(id), Event{Kind: ExecutorFree}, out[:0])
		}
	}
}

func ExampleNewGrouped() {
	p := NewGrouped(GroupedOptions{Groups: []FunctionGroup{{
		Batch: 3, Duration: 100 * time.Millisecond,
		Applications: []Waiting{{Class: 0, Timeout: 300 * time.Millisecond}, {Class: 1, Timeout: 50 * time.Millisecond}},
	}}})
	p.Step(0, Event{Kind: ExecutorUp, Executor: 0}, nil)
	for _, a := range p.Step(0, Event{Kind: Arrive, Request: Request{ID: 1, Class: 0}}, nil) {
		fmt.Println(a)
	}
	at := 10 * time.Millisecond
	for _, a := range p.Step(at, Event{Kind: Arrive, Request: Request{ID: 2, Class: 1, Arrival: at}}, nil) {
		fmt.Println(a)
	}
	for _, a := range p.Step(60*time.Millisecond, Event{Kind: Timer}, nil) {
		fmt.Println(a)
	}
	// Output:
	// timer at 300ms
	// timer at 60ms
	// start [2 1] on executor 0 of group 0
}
