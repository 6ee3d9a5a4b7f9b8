package factory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
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
		var p dispatch.Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "grouped":
				p = grouped.New(parseGroups(t, d))
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

func parseGroups(t *testing.T, d *datadriven.TestData) grouped.Options {
	var o grouped.Options
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &o.MaxQueue)
	}
	for line := range strings.Lines(d.Input) {
		var g grouped.Group
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
			var a grouped.Application
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
