package simulating

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestSoundPlansKeepTheirPromise plays the suite's workloads, each as declared
// and with every fan-out set to one: plans that are proven for every request of
// an even stream answer every request within the SLO, by all policies and cost
// models, with early starts and without. HARPAGON_KEEPS=1131 plays the whole
// suite, with exhaustive searches on as many workloads as the suite runs them on.
func TestSoundPlansKeepTheirPromise(t *testing.T) {
	n, slow := 12, false
	if text := os.Getenv("HARPAGON_KEEPS"); text != "" {
		n, _ = strconv.Atoi(text)
		slow = n >= planning.DefaultWorkloads
	}
	all, err := planning.Workloads(planning.DefaultSeed, n)
	require.NoError(t, err)
	began, kept := time.Now(), 0
	for _, w := range all {
		for _, p := range []plan.Problem{w.Problem, withoutFanout(w.Problem)} {
			for _, model := range plan.CostModels() {
				for _, v := range planning.Policies(model) {
					if v.Every > 1 && (!slow || w.ID%v.Every != 0) {
						continue
					}
					o := v.Options
					o.Clock, o.TimeLimit = func() time.Duration { return time.Since(began) }, 10*time.Second
					got := policies.Solve(p, o)
					if got.Status == plan.Infeasible || !got.Sound || got.Proof != plan.EveryRequest {
						continue
					}
					kept++
					for _, eager := range []bool{false, true} {
						err := simulate.Keeps([]pipelines.Pipeline{p.Pipeline}, []plan.Plan{got}, simulate.Keeping{Eager: eager})
						assert.NoError(t, err, "%s by %s, %s, eager %v\n%s", w.Describe(), v.Name, model, eager, got.Describe())
					}
				}
			}
		}
	}
	t.Logf("%d plans proven for every request", kept)
	require.NotZero(t, kept)
}

// TestSoundPlansKeepThinnerStreams: a stream whose requests are at least as far
// apart as those of the planned one is kept, too, up to the gap.
func TestSoundPlansKeepThinnerStreams(t *testing.T) {
	all, err := planning.Workloads(planning.DefaultSeed, 8)
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
				r, err := simulate.OnPlans([]simulate.Load{{Pipeline: late, Arrivals: simulate.Arrivals{Kind: simulate.ArrivalsReplay, Stamps: stamps}}}, []plan.Plan{got},
					simulate.Options{Duration: stamps[len(stamps)-1] + 1, Eager: eager})
				require.NoError(t, err)
				assert.Equal(t, r.Pipelines[0].Requests, r.Pipelines[0].Completed, "%s, %s, eager %v\n%s", w.Describe(), model, eager, got.Describe())
			}
		}
	}
}

func withoutFanout(p plan.Problem) plan.Problem {
	p.Pipeline.Modules = append([]pipelines.Module(nil), p.Pipeline.Modules...)
	for i := range p.Pipeline.Modules {
		p.Pipeline.Modules[i].Scatter, p.Pipeline.Modules[i].Fanout = false, 1
	}
	return p
}
