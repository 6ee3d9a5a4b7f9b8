package experiments

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestSoundPlansKeepTheirPromise plays a dozen workloads: plans that are proven
// for every request of an even stream answer every request within the SLO, by all
// policies and cost models, with early starts and without.
func TestSoundPlansKeepTheirPromise(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r, err := promises(t.Context(), &Env{Clock: func() time.Duration { return time.Since(began) }}, 12)
	require.NoError(t, err)
	assert.Empty(t, r.Notes)
	require.NotEmpty(t, r.Rows)
	for i := 0; i < len(r.Rows); i += 2 {
		assert.Positive(t, r.Rows[i].Ours)
		assert.Equal(t, r.Rows[i].Ours, r.Rows[i+1].Ours, "%s, %s: kept, of those proven", r.Rows[i].System, r.Rows[i].Setting.Text("cost_model"))
	}
}

// TestEarlyStartsCostNothing compares early starts with windows that are kept, on
// plans of whole and shared devices: no less is attained, and sooner.
func TestEarlyStartsCostNothing(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	r, err := early(t.Context(), &Env{}, 4)
	require.NoError(t, err)
	got := map[string]float64{}
	for _, row := range r.Rows {
		got[row.Setting.Text("arrivals")+row.Setting.Text("load")+row.Metric+row.System] = row.Ours
	}
	for _, at := range []string{"even0.5", "even0.8", "even1", "poisson0.5", "poisson0.8", "poisson1"} {
		if strings.HasPrefix(at, "even") {
			assert.InDelta(t, 100, got[at+"attained"+windowsKept], 1e-9)
			assert.InDelta(t, 100, got[at+"attained"+earlyStarts], 1e-9)
		}
		assert.Less(t, got[at+"p50"+earlyStarts], got[at+"p50"+windowsKept], at)
		assert.Less(t, got[at+"p99"+earlyStarts], got[at+"p99"+windowsKept], at)
	}
}

// TestSoundPlansKeepThinnerStreams: a stream whose requests are at least as far
// apart as those of the planned one is kept, too, up to the gap.
func TestSoundPlansKeepThinnerStreams(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	all, err := Workloads(DefaultSeed, 8)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 1))
	for _, w := range all {
		p := withoutFanout(w.Problem)
		for _, model := range plan.CostModels() {
			got := policies.Solve(p, plan.Options{CostModel: model})
			late := p.Pipeline
			gap := time.Duration(math.Ceil(float64(time.Second) / late.Rate))
			late.SLO += gap
			stamps := make([]time.Duration, 1000)
			for i := range stamps[1:] {
				stamps[i+1] = stamps[i] + gap
				if random.IntN(3) == 0 {
					stamps[i+1] += time.Duration(random.ExpFloat64() * float64(5*gap))
				}
			}
			for _, eager := range []bool{false, true} {
				r, err := simulate.OnPlans([]simulate.Load{{Pipeline: late, Arrivals: arrivals.Process{Kind: arrivals.Replay, Stamps: stamps}}}, []plan.Plan{got},
					simulate.Options{Duration: stamps[len(stamps)-1] + 1, Eager: eager})
				require.NoError(t, err)
				assert.Equal(t, r.Pipelines[0].Requests, r.Pipelines[0].Completed, "%s, %s, eager %v\n%s", w.Describe(), model, eager, got.Describe())
			}
		}
	}
}
