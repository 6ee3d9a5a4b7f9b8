package sizing

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// A plan attains what it promises on requests other than those it was searched with, in
// samples that are large enough.
func TestPlansAttainWhatTheyPromise(t *testing.T) {
	below := 0
	const modules, each, requests = 3, 6, 50_000
	for n := 1; n <= modules; n++ {
		for seed := range uint64(each) {
			p := drawn(seed, n)
			got := Solve(p, Options{})
			require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
			e := got.Expected
			require.True(t, e.Low >= 0.99 && e.Attainment >= e.Low && e.Confidence == confidence, "%+v", e)
			load := simulate.Load{Pipeline: p.Pipeline, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: p.Pipeline.Rate}
			o := simulate.Options{Duration: time.Duration(requests / p.Pipeline.Rate * float64(time.Second)), Seed: 77, Eager: true, Admission: true}
			r, err := simulate.OnPlans([]simulate.Load{load}, []plan.Plan{got}, o)
			require.NoError(t, err)
			if a := r.Pipelines[0].Attainment; a < 0.99 {
				below++
				t.Logf("%d modules, seed %d: expects %.4f, at least %.4f; attains %.4f", n, seed, e.Attainment, e.Low, a)
				assert.Greater(t, a, 0.985)
			}
		}
	}
	assert.LessOrEqual(t, below, 1)
}

// No plan costs more than one that is found by adding devices to that for even arrivals, in all
// ways, and holds on fresh requests.
func TestAddingDevicesIsNoCheaper(t *testing.T) {
	ways := 0
	for n := 1; n <= 3; n++ {
		for seed := range uint64(8) {
			p := drawn(seed, n)
			p.Pipeline.Rate, p.Pipeline.SLO = 2*p.Pipeline.Rate, p.Pipeline.SLO*3/5
			o := Options{Options: plan.Options{CostModel: plan.CostWhole}}
			got := Solve(p, o)
			require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
			t.Logf("%d modules, seed %d: %.2f after %.2f", n, seed, got.Cost, policies.Solve(p, o.Options).Cost)
			s, err := newSizer(p, o, policies.Solve(p, o.Options))
			require.NoError(t, err)
			s.best = &got
			var try func(from *plan.Plan, module, group int)
			try = func(from *plan.Plan, module, group int) {
				for i := module; i < len(from.Modules); i++ {
					for k := range from.Modules[i].Groups {
						next, price := s.with(from, i, k)
						if i == module && k < group || price == 0 || s.dear(&next) {
							continue
						}
						ways++
						e, ok := s.trial(&next, 77, finalMisses, finalLook, confidence)
						require.True(t, ok)
						assert.Less(t, e.Low, s.target, "%d modules, seed %d: %v costs less than %v", n, seed, next.Cost, got.Cost)
						try(&next, i, k)
					}
				}
			}
			try(&s.base, 0, 0)
		}
	}
	t.Logf("%d ways to add devices cost less", ways)
	assert.Positive(t, ways)
}

// Rare requests that divide into many items need devices for many times the rate that comes.
func TestRareRequestsWithManyItems(t *testing.T) {
	points := func(ms float64) pipelines.Profile {
		return pipelines.Profile{Points: []pipelines.Point{{Hardware: "fast", Batch: 1, Concurrency: 1, Duration: time.Duration(ms * 1e6)}}}
	}
	reads := func(m string) []pipelines.Binding {
		return []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: m, Port: "y"}}}
	}
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "fast", Price: 1}}, Pipeline: pipelines.Pipeline{
		Name: "crops", SLO: 58 * time.Millisecond, Rate: 0.26, Arrivals: pipelines.ArrivalsPoisson, Attainment: 0.99,
		Modules: []pipelines.Module{
			{Name: "detect", Fanout: 1, Profile: points(6)},
			{Name: "classify", Scatter: true, Fanout: 17, Profile: points(13), Inputs: reads("detect")},
			{Name: "name", Fanout: 1, Profile: points(13), Inputs: reads("classify")},
		},
	}}
	got := Solve(p, Options{Options: plan.Options{CostModel: plan.CostWhole}})
	require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
	assert.GreaterOrEqual(t, got.Expected.Low, 0.99)
	t.Log(got.Describe())
}

// Who may share devices need not.
func TestSharingIsNoDearer(t *testing.T) {
	all, err := library.Document()
	require.NoError(t, err)
	i := slices.IndexFunc(all.Pipelines, func(p pipelines.Pipeline) bool { return p.Name == "caption" })
	p := plan.Problem{Pipeline: all.Pipelines[i], Hardware: all.Hardware}
	p.Pipeline.Arrivals, p.Pipeline.Attainment = pipelines.ArrivalsPoisson, 0.99
	whole := Solve(p, Options{Options: plan.Options{CostModel: plan.CostWhole}})
	shared := Solve(p, Options{Options: plan.Options{CostModel: plan.CostShared}})
	require.NotEqual(t, plan.Infeasible, shared.Status, shared.Reason)
	assert.LessOrEqual(t, shared.Cost, whole.Cost*(1+plan.RateTolerance))
	assert.Equal(t, plan.CostShared, shared.CostModel)
}

// A laxer problem never costs more: a longer objective, a lower attainment, or fewer
// requests.
func TestLessIsNoDearer(t *testing.T) {
	const tolerance = 1 + 2*plan.OptimalityGap
	for _, model := range plan.CostModels() {
		dearer := 0
		for seed := range uint64(4) {
			last := map[string]float64{}
			for _, part := range []float64{1, 1.25, 1.5, 2} {
				for what, change := range map[string]func(p *pipelines.Pipeline){
					"objective":  func(p *pipelines.Pipeline) { p.SLO = time.Duration(float64(p.SLO) * part) },
					"attainment": func(p *pipelines.Pipeline) { p.Attainment = 1 - 0.01*part },
					"rate":       func(p *pipelines.Pipeline) { p.Rate /= part },
				} {
					p := drawn(seed, 2)
					change(&p.Pipeline)
					got := Solve(p, Options{Options: plan.Options{CostModel: model}})
					require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
					if was, ok := last[what]; ok && got.Cost > was*tolerance {
						dearer++
						t.Logf("%s, seed %d, %s times %v: %.3f after %.3f", model, seed, what, part, got.Cost, was)
					}
					last[what] = got.Cost
				}
			}
		}
		assert.LessOrEqual(t, dearer, 1, model)
	}
}

// Devices that are used to the full are late only after a while: a run that begins with empty
// queues and ends before that would find nothing.
func TestFullDevicesAreNotEnough(t *testing.T) {
	p := plantest.OneKind(1, 200, 400*ms, pipelines.Point{Batch: 8, Duration: 40 * ms})
	p.Pipeline.Arrivals, p.Pipeline.Attainment = pipelines.ArrivalsPoisson, 0.99
	require.InDelta(t, 1, policies.Solve(p, plan.Options{}).Cost, 1e-9)
	assert.InDelta(t, 2, Solve(p, Options{}).Cost, 1e-9)
}
