package factory

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
)

// TestTurnsScripts plays the stories in testdata/turns. A script starts with
//
//	turns [max=N] [batches]
//	batch=2 window=100ms duration=50ms     one line a group
//
// and goes on with steps and states as those of TestTCScripts.
func TestTurnsScripts(t *testing.T) {
	play(t, "turns", parseEvent, func(d *datadriven.TestData) dispatch.Policy {
		o := parseOptions(t, d)
		return roundrobin.New(roundrobin.Options{Groups: o.Groups, MaxQueue: o.MaxQueue, Batches: d.HasArg("batches")})
	})
}
