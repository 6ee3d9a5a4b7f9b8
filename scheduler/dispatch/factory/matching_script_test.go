package factory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// TestMatchingScripts plays the stories in testdata/matching. A script starts
// with
//
//	matching slo=100ms [largest=N] [max=N]
//	base 1ms          one line a type: its name and the time of one item;
//	other unknown     without a profile, "unknown"
//
// and goes on with steps and states as those of TestTCScripts; a query has a
// size: arrive 1 size=50.
func TestMatchingScripts(t *testing.T) {
	play(t, "matching", parseQuery, func(d *datadriven.TestData) dispatch.Policy {
		p, err := matching.New(parseMatching(t, d))
		require.NoError(t, err)
		return p
	})
}

func parseMatching(t *testing.T, d *datadriven.TestData) matching.Options {
	var o matching.Options
	var slo string
	d.ScanArgs(t, "slo", &slo)
	o.SLO = parseTime(t, slo)
	if d.HasArg("largest") {
		d.ScanArgs(t, "largest", &o.Largest)
	}
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	for line := range strings.Lines(d.Input) {
		name, each, _ := strings.Cut(strings.TrimSpace(line), " ")
		one := matching.InstanceType{Name: name}
		if each != "unknown" {
			for _, size := range []int{1, 100} {
				one.Latency = append(one.Latency, pipelines.Point{Batch: size, Concurrency: 1, Duration: time.Duration(size) * parseTime(t, each)})
			}
		}
		o.Types = append(o.Types, one)
	}
	return o
}

func parseQuery(t *testing.T, line string) (dispatch.Time, dispatch.Event) {
	now, ev := parseEvent(t, line)
	ev.Request.Size = parseSize(t, line)
	return now, ev
}

func parseSize(t *testing.T, line string) int32 {
	size := 0
	if _, after, ok := strings.Cut(line, "size="); ok {
		_, err := fmt.Sscan(after, &size)
		require.NoError(t, err, line)
	}
	return int32(size)
}
