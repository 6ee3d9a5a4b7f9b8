package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// TestAPromiseThatIsNotKeptNamesItsReason holds that it does after a minute, whatever the cause,
// and is silent again once it is kept.
func TestAPromiseThatIsNotKeptNamesItsReason(t *testing.T) {
	of := &pipelines.Pipeline{Name: "crops", SLO: 100 * ms, Rate: 5, Arrivals: "even", Modules: []pipelines.Module{
		{Name: "detect", Inputs: []pipelines.Binding{{Name: "image", From: pipelines.Ref{Port: "picture"}}}},
		{Name: "classify", Scatter: true, Fanout: 16, Inputs: []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "objects"}}}},
	}}
	planned := &plan.Plan{Modules: []plan.Module{{Name: "detect", Budget: 10 * ms}, {Name: "classify", Budget: 90 * ms}}}
	at := func(d time.Duration) Percentiles { return Percentiles{P50: d, P99: d} }
	late := Measures{Offered: 5, Late: 50, Modules: []ModuleMeasures{
		{Name: "detect", Rate: 5, Compute: at(5 * ms)},
		{Name: "classify", Rate: 80, Queue: at(120 * ms), Compute: at(34 * ms)},
	}}
	refused := Measures{Offered: 5, Completed: 20, Refused: 30}
	more := late
	more.Offered = 9
	failing := Measures{Offered: 5, Failed: 50, Modules: []ModuleMeasures{{Name: "detect", Failed: 50, Failure: "out of memory"}}}
	unfit := Measures{Offered: 5, Dropped: 50, Modules: []ModuleMeasures{{Name: "detect", Rate: 5, Compute: at(18 * ms)}, {Name: "classify"}}}
	kept := Measures{Offered: 5, Completed: 50}
	for _, c := range []struct {
		m   Measures
		why string
	}{
		{late, "promise not kept for 1m0s: 0 % in time, 99 % promised; classify keeps requests for 154 ms and 90 ms are planned (99 of 100: 120 ms for a device, 0 ms for their batch, 34 ms computed, 0 ms on the way); the items into which a request is divided come to it at once, 16 on average"},
		{refused, "promise not kept for 1m0s: 40 % in time, 99 % promised; 60 % are refused when they come, because what is under way leaves no time for them"},
		{more, "promise not kept for 1m0s: 0 % in time, 99 % promised; 9 requests/s come, and 5 are planned for"},
		{failing, "promise not kept for 1m0s: 0 % in time, 99 % promised; detect fails: out of memory"},
		{unfit, "promise not kept for 1m0s: 0 % in time, 99 % promised; 100 % are given up before classify: the items into which a request is divided come to it at once, 16 as declared, and cannot all be in time"},
		{kept, ""},
		{Measures{}, ""},
	} {
		var p Promise
		see := func(m Measures, seconds int) {
			m.From, m.To = start.Add(time.Duration(seconds-10)*time.Second), start.Add(time.Duration(seconds)*time.Second)
			m.SetAttainment()
			p.Observe(m, of, planned)
		}
		for s := 10; s < 60; s += 10 {
			see(c.m, s)
			require.Nil(t, p.Broken(of), "not for long yet")
		}
		see(c.m, 60)
		if c.why == "" {
			require.Nil(t, p.Broken(of))
			continue
		}
		require.Equal(t, c.why, p.Broken(of).Describe())
		see(kept, 70)
		require.Nil(t, p.Broken(of))
	}
	off := *of
	off.Attainment = pipelines.NoAttainment
	require.Zero(t, promised(&off))
	require.InDelta(t, 16, Fanout(late, of, "classify"), 1e-9)
	require.InDelta(t, 1, Fanout(late, of, "detect"), 1e-9)
}
