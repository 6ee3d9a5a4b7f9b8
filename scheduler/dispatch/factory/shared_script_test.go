package factory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// TestPoolScripts plays the stories in testdata/shared. A script starts with the
// name of a policy and one line a model:
//
//	deferred [rule=betalambda] [drop=early|head] [max=N] [margin=1ms] [control=1ms] [data=1ms]
//	each=2ms fixed=10ms largest=4 slo=50ms [rate=100]
//
// and goes on as in TestTCScripts, with class=N on arrivals to other models
// than the first.
func TestPoolScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/shared", func(t *testing.T, path string) {
		var p dispatch.Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "step":
				return transcript(t, p, d.Input, parsePoolEvent)
			case "state":
				return p.Describe()
			}
			p = parsePool(t, d)
			return "ok\n"
		})
	})
}

func parsePool(t *testing.T, d *datadriven.TestData) dispatch.Policy {
	var o shared.Options
	var rule, drop string
	scan := func(key string, to *time.Duration) {
		if d.HasArg(key) {
			var s string
			d.ScanArgs(t, key, &s)
			*to = parseTime(t, s)
		}
	}
	scan("margin", &o.Margin)
	scan("control", &o.Delay.Control)
	scan("data", &o.Delay.PerRequest)
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	if d.HasArg("rule") {
		d.ScanArgs(t, "rule", &rule)
	}
	if d.HasArg("drop") {
		d.ScanArgs(t, "drop", &drop)
	}
	for line := range strings.Lines(d.Input) {
		o.Models = append(o.Models, parseModel(t, line))
	}
	if rule != "" || drop != "" {
		do := shared.DeferredOptions{Options: o}
		do.Ready = map[string]shared.Schedulable{"betalambda": shared.BetaLambda, "atonce": shared.AtOnce}[rule]
		do.Drop = map[string]shared.DropRule{"early": shared.EarlyDrop, "head": shared.HeadDrop}[drop]
		return shared.NewDeferred(do)
	}
	p, err := shared.New(d.Cmd, o)
	require.NoError(t, err)
	return p
}

func parseModel(t *testing.T, line string) shared.Model {
	var m shared.Model
	var each, fixed time.Duration
	largest := 1
	for _, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "each":
			each = parseTime(t, value)
		case "fixed":
			fixed = parseTime(t, value)
		case "largest":
			_, err := fmt.Sscan(value, &largest)
			require.NoError(t, err)
		case "slo":
			m.SLO = parseTime(t, value)
		case "rate":
			_, err := fmt.Sscan(value, &m.Rate)
			require.NoError(t, err)
		default:
			t.Fatalf("a model has no %s", key)
		}
	}
	m.Durations = shared.Linear(each, fixed, largest)
	return m
}

func parsePoolEvent(t *testing.T, line string) (dispatch.Time, dispatch.Event) {
	now, ev := parseEvent(t, line)
	for _, field := range strings.Fields(line) {
		if value, ok := strings.CutPrefix(field, "class="); ok {
			_, err := fmt.Sscan(value, &ev.Request.Class)
			require.NoError(t, err, line)
		}
	}
	return now, ev
}
