package experiments

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Whole devices have a bound that nearly every plan of the suite meets.
func TestCertificatesOfWholeDevices(t *testing.T) {
	list := certified(t, 120)
	optimal, largest := 0, 0.0
	for _, w := range list {
		p := policies.Solve(w.Problem, plan.Options{CostModel: plan.CostWhole})
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		require.LessOrEqual(t, p.LowerBound, p.Cost)
		if p.Status == plan.Optimal {
			optimal++
		}
		largest = max(largest, (p.Cost-p.LowerBound)/p.Cost)
	}
	t.Logf("of %d plans %d are optimal, the largest gap is %.1f %%", len(list), optimal, 100*largest)
	assert.GreaterOrEqual(t, optimal, len(list)*98/100)
}

// certified is the first n of the suite, or as many as HARPAGON_WORKLOADS sets.
func certified(t *testing.T, n int) []Workload {
	if more, err := strconv.Atoi(os.Getenv("HARPAGON_WORKLOADS")); err == nil {
		n = more
	}
	list, err := Workloads(1131, n)
	require.NoError(t, err)
	return list
}

// How near the bound of cost model shared comes to the plans of the suite.
func TestCertificatesOfSharedDevices(t *testing.T) {
	t.Parallel()
	var gaps []float64
	for _, w := range certified(t, 10) {
		p := policies.Solve(w.Problem, plan.Options{})
		if p.Status == plan.Infeasible {
			continue
		}
		assert.LessOrEqual(t, p.LowerBound, p.Cost)
		gaps = append(gaps, (p.Cost-p.LowerBound)/p.Cost)
	}
	slices.Sort(gaps)
	within := func(gap float64) int {
		n, _ := slices.BinarySearch(gaps, gap)
		return n
	}
	t.Logf("of %d plans %d are optimal, %d within 1 %%, %d within 5 %%, %d within 10 %% of the bound; the median gap is %.1f %%, the 90th percentile %.1f %%",
		len(gaps), within(plan.OptimalityGap), within(0.01), within(0.05), within(0.1), 100*gaps[len(gaps)/2], 100*gaps[len(gaps)*9/10])
	assert.Greater(t, within(0.05), len(gaps)/3)
}
