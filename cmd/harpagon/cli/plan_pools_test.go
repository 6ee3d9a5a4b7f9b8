package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const examplePool = root + "/examples/pool"

func TestPlanPool(t *testing.T) {
	goodput := map[string]float64{}
	for _, policy := range []string{"homogeneous", "kairos", "exact"} {
		got := run(t, "plan", examplePool, "--policy", policy, "--json")
		require.Equal(t, ExitOK, got.code, got.stderr)
		var out struct {
			Plans []any
			Pools []struct {
				Pool, Policy, Status string
				Cost, Budget         float64
				Instances            map[string]int
				Upper                float64 `json:"upper_bound_rate"`
				Goodput              float64 `json:"goodput_rate"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		assert.NotNil(t, out.Plans)
		require.Len(t, out.Pools, 1)
		p := out.Pools[0]
		assert.Equal(t, "ranking", p.Pool)
		assert.Equal(t, policy, p.Policy)
		assert.LessOrEqual(t, p.Cost, p.Budget+1e-9)
		assert.GreaterOrEqual(t, p.Instances["gpu"], 1)
		assert.Positive(t, p.Upper)
		goodput[policy] = p.Goodput
	}
	assert.Greater(t, goodput["kairos"], goodput["homogeneous"])
	assert.GreaterOrEqual(t, goodput["exact"], goodput["kairos"])
}

// TestPlanOfAnInfeasiblePool holds that plan reports as a reason what validate reports as
// an error at its place.
func TestPlanOfAnInfeasiblePool(t *testing.T) {
	got := run(t, "plan", examplePool, "--var", "budget=0.5", "--json")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stderr)
	assert.Contains(t, got.stdout, `"status": "infeasible"`)
	assert.Contains(t, got.stdout, `"instances": {}`)

	got = run(t, "validate", examplePool, "--var", "budget=0.5")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "Budget too small")
	assert.Contains(t, got.stderr, "pool.hcl line")
}

func TestPlanPoolPolicies(t *testing.T) {
	got := run(t, "plan", examplePool, "--policy", "nexus")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `for pools there is exact`)
	got = run(t, "plan", smallFolder(t, "400ms"), "--policy", "kairos")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `policy "kairos" plans pools, and none is declared`)
}

func TestPlanPoolKeepsAndCompares(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.json")
	args := []string{"plan", examplePool, "--policy", "homogeneous", "--out", out, "--detailed-exitcode"}
	assert.Equal(t, ExitChanges, run(t, args...).code, "new")
	assert.Equal(t, ExitOK, run(t, args...).code, "the same")
	assert.Equal(t, ExitChanges, run(t, append(args, "--var", "budget=2")...).code, "another")
	_, err := os.Stat(out)
	assert.NoError(t, err)
}

func TestPoolsAreValidated(t *testing.T) {
	got := run(t, "validate", examplePool)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "1 pool")
}

func TestComparePools(t *testing.T) {
	got := run(t, "compare", examplePool, "--policy", "kairos,homogeneous")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "ranking: goodput in queries/s with poisson arrivals, budget 3.00 an hour")
	assert.Contains(t, got.stdout, "15 x cpu-small, 2 x gpu")
	assert.NotContains(t, got.stdout, "exact")
	assert.Equal(t, ExitError, run(t, "compare", examplePool, "--policy", "kairos", "--var", "budget=0.5").code)
}

func TestSimulatePools(t *testing.T) {
	got := run(t, "simulate", examplePool, "--policy", "kairos", "--rate", "600", "--duration", "5s", "--seed", "3", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out struct{ Pools []simulatedPool }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Pools, 1)
	p := out.Pools[0]
	assert.EqualValues(t, 3000, p.Requests)
	assert.Equal(t, p.Requests, p.Completed+p.Late+p.Dropped+p.Refused)
	assert.Greater(t, p.Attainment, 0.99)
	assert.LessOrEqual(t, p.Latency.P99, 60*time.Millisecond)
	assert.NotEmpty(t, p.Utilisation)

	got = run(t, "simulate", examplePool, "--policy", "kairos", "--rate", "600", "--duration", "2s", "--dispatch", "matching")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "ranking: matching dispatch, poisson arrivals, seed 1, 600 queries/s")
	for _, gone := range []string{"ribbon", "drs", "clockwork"} {
		got = run(t, "simulate", examplePool, "--dispatch", gone)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, "harpagon reproduce kairos/figure11 and kairos/figure14 compare with it. Choose \"matching\"")
	}
	for _, gone := range []string{"ribbon", "random", "genetic"} {
		got = run(t, "plan", examplePool, "--policy", gone)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, "kairos/figure11 and kairos/figure14 compare with it")
		assert.Contains(t, got.stderr, "exact, kairos, homogeneous, kairos+")
	}
	got = run(t, "simulate", examplePool, "--dispatch", "tc")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "Declare a pipeline block for it, or choose one of \"matching\"")
}
