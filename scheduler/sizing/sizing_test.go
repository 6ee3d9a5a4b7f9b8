package sizing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// TestSolveForRandomArrivals: the plan for an even stream is not enough for a
// Poisson one; the plan that is found attains its target, on other requests, too, and
// reports it.
func TestSolveForRandomArrivals(t *testing.T) {
	p := resnet50()
	p.Rate, p.Arrivals, p.Attainment = 4000, "poisson", 0.99
	for _, model := range plan.CostModels() {
		problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
		o := sizing.Options{Options: plan.Options{CostModel: model}}
		even := policies.Solve(problem, o.Options)
		got := sizing.SolveAll([]plan.Problem{problem}, o)[0]
		require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
		require.NotNil(t, got.Expected, model)
		assert.GreaterOrEqual(t, got.Expected.Low, 0.99)
		assert.Greater(t, got.Cost, even.Cost)
		assert.Less(t, got.Cost, 3*even.Cost)
		assert.True(t, got.Sound)
		assert.InDelta(t, 4000, got.Modules[0].Rate, 1e-6)
		assert.Contains(t, got.Describe(), "poisson arrivals in time under dispatch tc")

		load := simulate.Load{Pipeline: p, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: 4000}
		r, err := simulate.OnPlans([]simulate.Load{load}, []plan.Plan{got}, simulate.Options{Seed: 77, Duration: 20 * time.Second})
		require.NoError(t, err)
		assert.Greater(t, r.Pipelines[0].Attainment, 0.988)
	}
	p.Attainment = pipelines.NoAttainment
	only := sizing.Solve(plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}, sizing.Options{})
	assert.Less(t, only.Expected.Attainment, 0.99, "nothing is added without an attainment")
	p.Attainment = 0.99
	few := sizing.Solve(plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1, Count: 6}}}, sizing.Options{Options: plan.Options{CostModel: plan.CostWhole}})
	assert.Equal(t, plan.Infeasible, few.Status)
	assert.Contains(t, few.Reason, "99 % of poisson arrivals")
}

// A plan for random arrivals reports the attainment to expect.
func ExampleSolve() {
	p := example()
	p.Rate, p.Arrivals, p.Attainment = 750, "poisson", 0.99
	problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
	even := policies.Solve(problem, plan.Options{CostModel: plan.CostWhole})
	made := sizing.Solve(problem, sizing.Options{Options: plan.Options{CostModel: plan.CostWhole}})
	fmt.Printf("%.0f devices for an even stream, %.0f for a Poisson one\n", even.Cost, made.Cost)
	fmt.Println("at least 99 % expected:", made.Expected.Low >= 0.99)
	// Output:
	// 2 devices for an even stream, 3 for a Poisson one
	// at least 99 % expected: true
}

// linear is a pipeline of one module whose batches take a fixed time and a time
// for each request.
func linear(name string, each, fixed, slo time.Duration, most int) pipelines.Pipeline {
	m := pipelines.Module{Name: "detect", Fanout: 1}
	for b := 1; b <= most; b++ {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: fixed + time.Duration(b)*each})
	}
	return pipelines.Pipeline{Name: name, SLO: slo, Modules: []pipelines.Module{m}}
}

// resnet50 is Symphony's model of the same name: 1.053 ms a request and 5.072 ms a batch.
func resnet50() pipelines.Pipeline {
	return linear("resnet50", 1053*time.Microsecond, 5072*time.Microsecond, 25*time.Millisecond, 64)
}

func example() pipelines.Pipeline {
	p := linear("objects", 2*time.Millisecond, 5*time.Millisecond, 60*time.Millisecond, 8)
	p.Rate = 200
	return p
}
