package exact

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

var exactShared = plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostShared}

// Five small models fit on one device; whole devices would cost five times as
// much.
func TestFiveSmallModelsShareADevice(t *testing.T) {
	p := solve(plantest.Chain("p", 5, 20), exactShared)
	require.Equal(t, plan.Optimal, p.Status, p.Reason)
	assert.InDelta(t, 1, p.Cost, 1e-9)
	assert.Equal(t, plan.EveryRequest, p.Proof)
	require.Len(t, p.Devices, 1)
	assert.Len(t, p.Devices[0].Tasks, 5)
	assert.Equal(t, 5.0, solve(plantest.Chain("p", 5, 20), exactWhole).Cost)
}

func TestSharingRespectsMemory(t *testing.T) {
	problem := plantest.Chain("p", 5, 20)
	problem.Hardware[0].Memory = 2 << 30 // two models
	p := solve(problem, exactShared)
	require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
	assert.InDelta(t, 3, p.Cost, 1e-9)
	for _, d := range p.Devices {
		assert.LessOrEqual(t, len(d.Tasks), 2)
	}
}

func TestPipelinesShareDevices(t *testing.T) {
	problems := []plan.Problem{plantest.Chain("p", 2, 20), plantest.Chain("q", 2, 30), plantest.Chain("r", 1, 10)}
	plans := solveAll(problems, exactShared)
	require.Len(t, plans, 3)
	total := 0.0
	for i, p := range plans {
		require.Equal(t, plan.Optimal, p.Status, p.Reason)
		require.True(t, p.Sound)
		require.Len(t, p.Devices, 1)
		assert.Len(t, p.Devices[0].Tasks, 5, "a plan shows who else uses its device")
		assert.Less(t, p.Cost, solve(problems[i], exactShared).Cost, "each pays for its part")
		total += p.Cost
	}
	assert.InDelta(t, 1, total, 1e-9)
}

// A promise for every request holds only as long as it is known how those of others on the
// device come.
func TestNeighboursInBurstsWeakenTheProof(t *testing.T) {
	bursty := plantest.Chain("q", 2, 20)
	bursty.Pipeline.Modules[1].Fanout, bursty.Pipeline.Modules[1].Scatter = 1.5, true
	alone := plantest.Chain("p", 2, 20)
	assert.Equal(t, plan.EveryRequest, solve(alone, exactShared).Proof)
	plans := solveAll([]plan.Problem{alone, bursty}, exactShared)
	require.Len(t, plans[0].Devices, 1)
	assert.Equal(t, plan.NoProof, plans[0].Proof)
	assert.Equal(t, plan.NoProof, plans[1].Proof)
}

func TestPlansTogetherSayWhichIsInfeasible(t *testing.T) {
	bad := plantest.Chain("bad", 2, 20)
	bad.Pipeline.SLO = 15 * time.Millisecond
	plans := solveAll([]plan.Problem{plantest.Chain("p", 2, 20), bad}, exactShared)
	assert.Equal(t, plan.Optimal, plans[0].Status)
	assert.Equal(t, plan.Infeasible, plans[1].Status)
	assert.Contains(t, plans[1].Reason, "the fastest path a -> b needs 20 ms")
}

func TestSharedIsSoundAndBetweenItsBounds(t *testing.T) {
	drawLess(t)
	several := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimitedFew(t)
		if rapid.Bool().Draw(t, "low") {
			problem.Pipeline.Rate /= 30
		}
		p := solve(problem, exactShared)
		whole := solve(problem, exactWhole)
		require.Equal(t, whole.Status == plan.Infeasible, p.Status == plan.Infeasible, p.Reason)
		if p.Status == plan.Infeasible {
			return
		}
		require.True(t, p.Sound, p.Describe())
		require.LessOrEqual(t, p.Cost, whole.Cost*(1+1e-9))
		share := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		require.GreaterOrEqual(t, p.Cost, share.LowerBound*(1-1e-9))
		require.GreaterOrEqual(t, p.Cost, p.LowerBound*(1-1e-9))
		plantest.CheckShared(t, problem, p)
		for _, d := range p.Devices {
			if len(d.Tasks) > 1 {
				several++
			}
		}
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var decoded plan.Plan
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.Equal(t, len(p.Devices), len(decoded.Devices))
	})
	assert.NotZero(t, several)
}

func TestSharedInTwoSteps(t *testing.T) {
	drawLess(t)
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimitedFew(t)
		full := solve(problem, exactShared)
		budgets, err := splitLatency(problem, exactShared)
		if err != nil {
			require.Equal(t, plan.Infeasible, full.Status)
			return
		}
		steps, err := scheduleModules(problem, exactShared, budgets)
		require.NoError(t, err)
		require.Equal(t, full, steps)
	})
}

func TestSharedKeepsCounts(t *testing.T) {
	drawLess(t)
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawFew(t)
		problem.Pipeline.Rate /= 10
		p := solve(problem, exactShared)
		if p.Status == plan.Infeasible {
			return
		}
		for _, h := range problem.Hardware {
			if h.Count > 0 {
				require.LessOrEqual(t, p.MachinesOf(h.Name), float64(h.Count)*(1+1e-6))
			}
		}
	})
}

func BenchmarkShared(b *testing.B) {
	p := plantest.Chain("p", 5, 60)
	b.ReportAllocs()
	for b.Loop() {
		solve(p, exactShared)
	}
}

// Two modules that each fill a device, of a cheap kind of which one exists: one
// of them takes it, the other the dearer kind.
func TestModulesShareALimitedKind(t *testing.T) {
	problem := plantest.Chain("p", 2, 350)
	problem.Hardware = append(problem.Hardware, pipelines.Hardware{Name: "dear", Price: 3})
	problem.Hardware[0].Count = 1
	for i := range problem.Pipeline.Modules {
		points := &problem.Pipeline.Modules[i].Profile.Points
		*points = append(append([]pipelines.Point{}, *points...), pipelines.Point{Hardware: "dear", Batch: 4, Concurrency: 1, Duration: 10 * time.Millisecond})
	}
	for _, o := range []plan.Options{exactWhole, exactShared, asPaper, {Policy: plan.PolicyExact, CostModel: plan.CostProportional}} {
		p := solve(problem, o)
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		assert.Equal(t, "v100 dear", groupKinds(&p), "%+v", o)
		assert.LessOrEqual(t, p.Cost, 4.0+1e-9)
	}
}

func groupKinds(p *plan.Plan) string {
	a, b := p.Modules[0].Groups[0].Hardware, p.Modules[1].Groups[0].Hardware
	if a > b {
		return a + " " + b
	}
	return b + " " + a
}

// A search that is ended from outside reports that; one that ends by itself has the same
// plan however fast the clock runs.
func TestPlansSayWhenTheSearchWasCutShort(t *testing.T) {
	problem := plantest.Chain("p", 5, 260)
	whole := solve(problem, exactShared)
	require.False(t, whole.CutShort)
	for _, tick := range []time.Duration{time.Nanosecond, time.Millisecond} {
		now := time.Duration(0)
		o := exactShared
		o.TimeLimit, o.Clock = time.Hour, func() time.Duration { now += tick; return now }
		other := solve(problem, o)
		other.SolveTime = whole.SolveTime
		assert.Equal(t, whole, other)
	}
	o := exactShared
	o.Stop = func() bool { return true }
	cut := solve(problem, o)
	assert.True(t, cut.CutShort)
	assert.Contains(t, cut.Describe(), "with more time")
	for _, p := range solveAll([]plan.Problem{problem, plantest.Chain("q", 2, 300)}, o) {
		assert.True(t, p.CutShort)
	}
}
