package exact_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Where the bursts of a fan-out stay apart, all that devices do for one is whole batches within
// the latency: the cheapest plan is that of an exhaustive search over devices, batches and the
// hardware of what is above.
func TestBurstsCostWhatAnExhaustiveSearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const mostDevices = 16 // one for every item
		millis := func(name string, low, high int) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Millisecond
		}
		kinds := []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: float64(rapid.IntRange(1, 30).Draw(t, "price")) / 10}}
		items, slo := rapid.IntRange(1, 16).Draw(t, "items"), millis("objective", 20, 200)+time.Millisecond/2 // windows are no less than a nanosecond
		gap := slo + millis("gap", 0, 200)
		profile := func(name string, batches ...int) (all []pipelines.Point) {
			for _, h := range kinds {
				took := millis(name+" "+h.Name, 2, 30)
				for _, b := range batches {
					all = append(all, pipelines.Point{Hardware: h.Name, Batch: b, Concurrency: 1, Duration: took})
					took += millis("more", 1, 30)
				}
			}
			return all
		}
		detect, classify := profile("detect", 1), profile("classify", 1, 2, 4)
		problem := plan.Problem{Hardware: kinds, Pipeline: pipelines.Pipeline{
			Name: "p", SLO: slo, Rate: 1 / gap.Seconds(), Arrivals: pipelines.ArrivalsEven,
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: detect}},
				{Name: "classify", Scatter: true, Fanout: float64(items), Profile: pipelines.Profile{Points: classify},
					Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "detect", Port: "y"}}}},
			},
		}}
		least := math.Inf(1)
		for i, above := range kinds {
			left := slo - detect[i].Duration
			does := func(kind string) (most int) {
				for _, at := range classify {
					if at.Hardware == kind && left >= at.Duration {
						most = max(most, at.Batch*int(left/at.Duration))
					}
				}
				return most
			}
			for n := range mostDevices + 1 {
				for m := range mostDevices + 1 {
					if left > 0 && n*does("a")+m*does("b") >= items {
						least = min(least, above.Price+float64(n)*kinds[0].Price+float64(m)*kinds[1].Price)
					}
				}
			}
		}
		got := policies.Solve(problem, plan.Options{CostModel: plan.CostWhole})
		if math.IsInf(least, 1) {
			require.Equal(t, plan.Infeasible, got.Status, got.Describe())
			return
		}
		require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
		require.Equal(t, plan.EveryRequest, got.Proof)
		require.InDelta(t, least, got.Cost, 1e-9, got.Describe())
	})
}
