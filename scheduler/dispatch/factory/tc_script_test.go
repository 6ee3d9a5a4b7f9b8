package factory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// TestTCScripts plays the stories in testdata/tc. A script starts with
//
//	tc [max=N] [eager]
//	batch=2 window=100ms duration=50ms [period=100ms]     one line a group
//
// and goes on with blocks of events, one a line, each at an instant:
//
//	step
//	0ms up 0 [group]
//	0ms arrive 1 deadline=300ms [virtual=0ms]
//	10ms free 0 | gone 0 | cancel 1 | timer
//
// What follows is the transcript: every event, then the actions it caused.
// "state" prints Describe. Rewrite with go test -rewrite, and review the diff.
func TestTCScripts(t *testing.T) {
	play(t, "tc", parseEvent, func(d *datadriven.TestData) dispatch.Policy { return tc.New(parseOptions(t, d)) })
}

// play runs the scripts of a family of policies, whose first command, named like their folder,
// makes one.
func play(t *testing.T, family string, parse func(*testing.T, string) (dispatch.Time, dispatch.Event), begin func(*datadriven.TestData) dispatch.Policy) {
	datadriven.Walk(t, "testdata/"+family, func(t *testing.T, path string) {
		var p dispatch.Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case family:
				p = begin(d)
				return "ok\n"
			case "step":
				return transcript(t, p, d.Input, parse)
			case "state":
				return p.Describe()
			}
			d.Fatalf(t, "there is no command %s", d.Cmd)
			return ""
		})
	})
}

// transcript plays the events and prints each with the actions it caused.
func transcript(t *testing.T, p dispatch.Policy, events string, parse func(*testing.T, string) (dispatch.Time, dispatch.Event)) string {
	var b strings.Builder
	for line := range strings.Lines(events) {
		now, ev := parse(t, line)
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(line))
		for _, a := range p.Step(now, ev, nil) {
			fmt.Fprintf(&b, "  %v\n", a)
		}
	}
	return b.String()
}

func parseOptions(t *testing.T, d *datadriven.TestData) tc.Options {
	var o tc.Options
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	switch {
	case d.HasArg("eager"):
		o.Early = tc.EarlyWithinPromise
	case d.HasArg("always"):
		o.Early = tc.EarlyAlways
	}
	for line := range strings.Lines(d.Input) {
		var g tc.Group
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "batch":
				_, err := fmt.Sscan(value, &g.Batch)
				require.NoError(t, err)
			case "window":
				g.Window = parseTime(t, value)
			case "duration":
				g.Duration = parseTime(t, value)
			case "period":
				g.Period = parseTime(t, value)
			default:
				t.Fatalf("a group has no %s", key)
			}
		}
		o.Groups = append(o.Groups, g)
	}
	return o
}

func parseEvent(t *testing.T, line string) (dispatch.Time, dispatch.Event) {
	f := strings.Fields(line)
	require.GreaterOrEqual(t, len(f), 2, line)
	now := parseTime(t, f[0])
	number := 0
	if len(f) > 2 {
		_, err := fmt.Sscan(f[2], &number)
		require.NoError(t, err, line)
	}
	switch f[1] {
	case "up":
		group := 0
		if len(f) > 3 {
			_, err := fmt.Sscan(f[3], &group)
			require.NoError(t, err, line)
		}
		return now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(number), Group: int32(group)}
	case "free":
		return now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(number)}
	case "gone":
		return now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(number)}
	case "cancel":
		return now, dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: dispatch.RequestID(number)}}
	case "timer":
		return now, dispatch.Event{Kind: dispatch.Timer}
	case "arrive":
		r := dispatch.Request{ID: dispatch.RequestID(number), Arrival: now}
		for _, field := range f[3:] {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "deadline":
				r.Deadline = parseTime(t, value)
			case "virtual":
				r.Arrival = parseTime(t, value)
			}
		}
		return now, dispatch.Event{Kind: dispatch.Arrive, Request: r}
	}
	t.Fatalf("there is no event %s", f[1])
	return 0, dispatch.Event{}
}

func parseTime(t *testing.T, s string) dispatch.Time {
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return d
}
