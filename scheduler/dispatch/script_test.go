package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestTCScripts plays the stories in testdata/tc. A script starts with
//
//	tc [max=N] [eager] [byratio]
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
// "state" prints what Describe says. Rewrite with go test -rewrite, and read.
func TestTCScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/tc", func(t *testing.T, path string) {
		var p Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "tc":
				p = NewTC(parseOptions(t, d))
				return "ok\n"
			case "step":
				return transcript(t, p, d.Input, parseEvent)
			case "state":
				return p.Describe()
			}
			d.Fatalf(t, "there is no command %s", d.Cmd)
			return ""
		})
	})
}

// transcript plays the events and tells each with the actions it caused.
func transcript(t *testing.T, p Policy, events string, parse func(*testing.T, string) (Time, Event)) string {
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

func parseOptions(t *testing.T, d *datadriven.TestData) TCOptions {
	var o TCOptions
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	switch {
	case d.HasArg("eager"):
		o.Early = EarlyWithinPromise
	case d.HasArg("always"):
		o.Early = EarlyAlways
	}
	o.ByRatio = d.HasArg("byratio")
	for line := range strings.Lines(d.Input) {
		var g GroupOptions
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

func parseEvent(t *testing.T, line string) (Time, Event) {
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
		return now, Event{Kind: ExecutorUp, Executor: ExecutorID(number), Group: int32(group)}
	case "free":
		return now, Event{Kind: ExecutorFree, Executor: ExecutorID(number)}
	case "gone":
		return now, Event{Kind: ExecutorGone, Executor: ExecutorID(number)}
	case "cancel":
		return now, Event{Kind: Cancel, Request: Request{ID: RequestID(number)}}
	case "timer":
		return now, Event{Kind: Timer}
	case "arrive":
		r := Request{ID: RequestID(number), Arrival: now}
		for _, field := range f[3:] {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "deadline":
				r.Deadline = parseTime(t, value)
			case "virtual":
				r.Arrival = parseTime(t, value)
			}
		}
		return now, Event{Kind: Arrive, Request: r}
	}
	t.Fatalf("there is no event %s", f[1])
	return 0, Event{}
}

func parseTime(t *testing.T, s string) Time {
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return d
}
