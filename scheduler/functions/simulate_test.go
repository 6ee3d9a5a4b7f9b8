package functions

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSimulateKeepsObjectives: whatever the arrivals, a plan that is sound misses
// no objective and lets no request wait longer than its application's timeout.
func TestSimulateKeepsObjectives(t *testing.T) {
	for i := range 30 {
		p := drawn(7, i, 10)
		for _, policy := range []string{PolicyExact, PolicyHarmonyBatch, PolicyMBS} {
			plan, err := Solve(p, Options{Policy: policy})
			require.NoError(t, err)
			got, err := Simulate(p, plan, SimulateOptions{Duration: time.Duration(500 / plan.Rate * float64(time.Second)), Seed: uint64(i)})
			require.NoError(t, err)
			assert.Positive(t, got.Requests)
			assert.Zero(t, got.Violations(), "%s of input %d", policy, i)
			assert.Zero(t, got.Overstayed)
		}
	}
}

// TestSimulateOfSingleRequests: where batches hold one request, the model gives the cost
// exactly.
func TestSimulateOfSingleRequests(t *testing.T) {
	p := ask(0.3, 5)
	p.Function.Profile.GPU = nil
	plan, err := Solve(p, Options{})
	require.NoError(t, err)
	require.Equal(t, 1, plan.Groups[0].Batch)
	got, err := Simulate(p, plan, SimulateOptions{Duration: time.Minute, Steady: true})
	require.NoError(t, err)
	assert.InEpsilon(t, plan.CostPerRequest, got.CostPerRequest, 1e-9)
	assert.Equal(t, got.Requests, got.Calls)
}

// TestSimulateAgainstTheModel: the model expects full batches, and arrivals that
// come in bursts and gaps fill them less often. This is how far that goes.
func TestSimulateAgainstTheModel(t *testing.T) {
	var sum, worst float64
	const inputs = 20
	for i := range inputs {
		p := drawn(8, i, 10)
		plan, err := Solve(p, Options{})
		require.NoError(t, err)
		got, err := Simulate(p, plan, SimulateOptions{Duration: time.Duration(4000 / plan.Rate * float64(time.Second)), Seed: 1})
		require.NoError(t, err)
		over := got.CostPerRequest/got.Predicted - 1
		sum += over
		worst = math.Max(worst, over)
		assert.Greater(t, over, -0.1, "input %d", i)
	}
	t.Logf("requests cost %.1f %% more than by the model on average, %.0f %% at most", 100*sum/float64(inputs), 100*worst)
	assert.Less(t, sum/float64(inputs), 1.0)
}

// TestSimulateOfBatch: taking the average latency for the longest misses
// objectives, which the plan states and the simulation shows.
func TestSimulateOfBatch(t *testing.T) {
	p := ask(0.5, 5, 0.6, 10, 0.75, 20)
	plan, err := Solve(p, Options{Policy: PolicyBatch})
	require.NoError(t, err)
	assert.False(t, plan.Sound)
	got, err := Simulate(p, plan, SimulateOptions{Duration: 5 * time.Minute, Seed: 1})
	require.NoError(t, err)
	assert.Positive(t, got.Violations())
	best, err := Solve(p, Options{})
	require.NoError(t, err)
	got, err = Simulate(p, best, SimulateOptions{Duration: 5 * time.Minute, Seed: 1})
	require.NoError(t, err)
	assert.Zero(t, got.Violations())
}

func TestSimulateRefusesTheInfeasible(t *testing.T) {
	p := ask(0.001, 5)
	plan, err := Solve(p, Options{})
	require.NoError(t, err)
	_, err = Simulate(p, plan, SimulateOptions{Duration: time.Second})
	assert.ErrorContains(t, err, "infeasible")
}

func ExampleSimulate() {
	p := ask(0.5, 5, 0.8, 10, 1.0, 20)
	p.Provider.Billing = time.Second
	plan, err := Solve(p, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := Simulate(p, plan, SimulateOptions{Duration: time.Hour, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d requests in batches of %.1f, not %d; %d late\n", r.Requests, r.MeanBatch, plan.Groups[0].Batch, r.Late)
	fmt.Printf("%.2f per million, by the model %.2f\n", 1e6*r.CostPerRequest, 1e6*r.Predicted)
	// Output:
	// 125865 requests in batches of 11.1, not 13; 0 late
	// 2.70 per million, by the model 2.32
}
