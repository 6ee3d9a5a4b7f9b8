package simulate

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/suite"
)

// slow policies search exhaustively; they are left out but for the whole suite.
func slow(policy string) bool { return policy == "brute" }

// TestSoundPlansKeepTheirPromise plays the suite's workloads, each as declared
// and with every fan-out set to one: plans that are proven for every request of
// an even stream answer every request within the SLO and one gap, by all
// policies and cost models. HARPAGON_KEEPS=1131 plays the whole suite.
func TestSoundPlansKeepTheirPromise(t *testing.T) {
	n, long := 12, false
	if text := os.Getenv("HARPAGON_KEEPS"); text != "" {
		n, _ = strconv.Atoi(text)
		long = n >= suite.DefaultWorkloads
	}
	all, err := suite.Workloads(suite.DefaultSeed, n)
	require.NoError(t, err)
	kept := 0
	for _, w := range all {
		for _, p := range []plan.Problem{w.Problem, withoutFanout(w.Problem)} {
			for _, policy := range plan.Policies() {
				if slow(policy) && !long {
					continue
				}
				for _, model := range plan.CostModels() {
					got := plan.Solve(p, plan.Options{Policy: policy, CostModel: model})
					if got.Status == plan.Infeasible || !got.Sound || got.Proof != plan.EveryRequest {
						continue
					}
					kept++
					err := Keeps([]pipelines.Pipeline{p.Pipeline}, []plan.Plan{got}, Keeping{})
					assert.NoError(t, err, "%s by %s, %s\n%s", w.Describe(), policy, model, got.Describe())
				}
			}
		}
	}
	t.Logf("%d plans proven for every request", kept)
	require.NotZero(t, kept)
}

func withoutFanout(p plan.Problem) plan.Problem {
	p.Pipeline.Modules = append([]pipelines.Module(nil), p.Pipeline.Modules...)
	for i := range p.Pipeline.Modules {
		p.Pipeline.Modules[i].Scatter, p.Pipeline.Modules[i].Fanout = false, 1
	}
	return p
}

// TestKeepsNamesWhatFails: a plan that was made for half the rate does not do.
func TestKeepsNamesWhatFails(t *testing.T) {
	p := resnet50()
	p.Rate = 2000
	problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
	got := plan.Solve(problem, plan.Options{CostModel: plan.CostWhole})
	require.NoError(t, Keeps([]pipelines.Pipeline{p}, []plan.Plan{got}, Keeping{}))
	p.Rate = 4000
	err := Keeps([]pipelines.Pipeline{p}, []plan.Plan{got}, Keeping{})
	assert.ErrorContains(t, err, `pipeline "resnet50" does not keep its SLO`)
}
