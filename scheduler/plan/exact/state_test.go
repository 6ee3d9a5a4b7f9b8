package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// tracked is detect -> track of streams, with these points of either.
func tracked(s pipelines.Stream, slo time.Duration, state bool, detect, track []pipelines.Point) plan.Problem {
	none := 0.0
	p := pipelines.Pipeline{
		Name: "crossing", SLO: slo, Rate: s.Total(), Arrivals: pipelines.ArrivalsEven, Stream: s, Headroom: &none,
		Inputs: []pipelines.Port{{Name: "frame"}},
		Modules: []pipelines.Module{
			{Name: "detect", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "frame"}}}, Profile: pipelines.Profile{Points: detect}},
			{Name: "track", State: state, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "detect", Port: "y"}}}, Profile: pipelines.Profile{Points: track}},
		},
	}
	return plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.3}}}
}

func devicesOf(p plan.Plan, module string) (n float64) {
	for _, m := range p.Modules {
		for _, g := range m.Groups {
			if m.Name == module {
				n += g.Machines
			}
		}
	}
	return n
}

// A module with state answers each frame before the next of its stream may come.
func TestStateBoundsTheLatencyOfItsModule(t *testing.T) {
	const ms = time.Millisecond
	s := pipelines.Stream{Rate: 10, Count: 40, Jitter: 20 * ms}
	detect := []pipelines.Point{{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 10 * ms}}
	track := []pipelines.Point{{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 30 * ms}}
	for _, model := range []string{plan.CostWhole, plan.CostShared} {
		without := plan.Solve(tracked(s, 300*ms, false, detect, track), plan.Options{CostModel: model}, Policy{})
		require.NotEqual(t, plan.Infeasible, without.Status, without.Reason)
		assert.InDelta(t, 2, devicesOf(without, "track"), 0, "2 answer within 120 ms")
		with := plan.Solve(tracked(s, 300*ms, true, detect, track), plan.Options{CostModel: model}, Policy{})
		require.NotEqual(t, plan.Infeasible, with.Status, with.Reason)
		assert.True(t, with.Sound)
		assert.InDelta(t, 5, devicesOf(with, "track"), 0, "4 answer within 90 ms, 5 within 60")
		for _, m := range with.Modules {
			if m.Name == "track" {
				assert.LessOrEqual(t, m.Proven, 80*ms)
			}
		}
		too := plan.Solve(tracked(s, 300*ms, true, detect, []pipelines.Point{{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 41 * ms}}), plan.Options{CostModel: model}, Policy{})
		assert.Equal(t, plan.Infeasible, too.Status)
		assert.Contains(t, too.Reason, "module track cannot serve 400 requests per second within its budget of 80 ms, which is 1/rate of its streams less their jitter: it keeps state")
	}
}

// Drawn pipelines: a plan with state costs no less and keeps its module's constraint; where
// the plan without has kept that anyway, it costs the same.
func TestStateInDrawnPipelines(t *testing.T) {
	const ms = time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		s := pipelines.Stream{Rate: float64(rapid.IntRange(2, 20).Draw(t, "rate")), Count: rapid.IntRange(1, 12).Draw(t, "count")}
		s.Jitter = time.Duration(rapid.IntRange(0, 40).Draw(t, "jitter")) * ms
		if rapid.Bool().Draw(t, "chosen") {
			s.Phases, s.Jitter = pipelines.PhasesChosen, 0
		}
		points := func(name string) (all []pipelines.Point) {
			for _, hardware := range []string{"gpu", "cpu"} {
				d := time.Duration(rapid.IntRange(1, 40).Draw(t, name)) * ms
				for _, b := range []int{1, 8} {
					all = append(all, pipelines.Point{Hardware: hardware, Batch: b, Concurrency: 1, Duration: d + d*time.Duration(b-1)/5})
				}
			}
			return all
		}
		slo := time.Duration(rapid.IntRange(100, 600).Draw(t, "slo")) * ms
		detect, track := points("detect"), points("track")
		without := plan.Solve(tracked(s, slo, false, detect, track), plan.Options{CostModel: plan.CostWhole}, Policy{})
		with := plan.Solve(tracked(s, slo, true, detect, track), plan.Options{CostModel: plan.CostWhole}, Policy{})
		if with.Status == plan.Infeasible {
			return
		}
		require.True(t, with.Sound)
		require.NotEqual(t, plan.Infeasible, without.Status, without.Reason)
		require.GreaterOrEqual(t, with.Cost, without.Cost*(1-1e-9))
		require.LessOrEqual(t, with.LowerBound, with.Cost*(1+1e-9))
		require.LessOrEqual(t, with.Modules[1].Proven, s.Apart())
		if without.Modules[1].Proven <= s.Apart() && without.Status == plan.Optimal {
			require.InDelta(t, without.Cost, with.Cost, 1e-9*without.Cost)
		}
	})
}
