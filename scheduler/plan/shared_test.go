package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

var exactShared = Options{Policy: PolicyExact, CostModel: CostShared}

// small is a pipeline of a chain of n models that take 10 ms a batch of 4.
func small(name string, n int, rate float64) Problem {
	p := oneKind(1, rate, time.Duration(n)*200*time.Millisecond, pipelines.Point{Batch: 4, Duration: 10 * time.Millisecond, MemoryMiB: 1024})
	p.Pipeline.Name = name
	first := p.Pipeline.Modules[0]
	p.Pipeline.Modules = nil
	for i := range n {
		m := first
		m.Name = string(rune('a' + i))
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: string(rune('a' + i - 1)), Port: "y"}}}
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	return p
}

// Five small models fit on one device; whole devices would cost five times as
// much.
func TestFiveSmallModelsShareADevice(t *testing.T) {
	p := Solve(small("p", 5, 20), exactShared)
	require.Equal(t, Optimal, p.Status, p.Reason)
	assert.InDelta(t, 1, p.Cost, 1e-9)
	assert.Equal(t, EveryRequest, p.Proof)
	require.Len(t, p.Devices, 1)
	assert.Len(t, p.Devices[0].Tasks, 5)
	assert.Equal(t, 5.0, Solve(small("p", 5, 20), exactWhole).Cost)
}

func TestSharingRespectsMemory(t *testing.T) {
	problem := small("p", 5, 20)
	problem.Hardware[0].Memory = 2 << 30 // two models
	p := Solve(problem, exactShared)
	require.NotEqual(t, Infeasible, p.Status, p.Reason)
	assert.InDelta(t, 3, p.Cost, 1e-9)
	for _, d := range p.Devices {
		assert.LessOrEqual(t, len(d.Tasks), 2)
	}
}

func TestPipelinesShareDevices(t *testing.T) {
	problems := []Problem{small("p", 2, 20), small("q", 2, 30), small("r", 1, 10)}
	plans := SolveAll(problems, exactShared)
	require.Len(t, plans, 3)
	total := 0.0
	for i, p := range plans {
		require.Equal(t, Optimal, p.Status, p.Reason)
		require.True(t, p.Sound)
		require.Len(t, p.Devices, 1)
		assert.Len(t, p.Devices[0].Tasks, 5, "a plan shows who else uses its device")
		assert.Less(t, p.Cost, Solve(problems[i], exactShared).Cost, "each pays for its part")
		total += p.Cost
	}
	assert.InDelta(t, 1, total, 1e-9)
}

// A promise for every request holds only as long as nobody on the device comes
// in bursts.
func TestNeighboursInBurstsWeakenTheProof(t *testing.T) {
	bursty := small("q", 2, 20)
	bursty.Pipeline.Modules[1].Fanout, bursty.Pipeline.Modules[1].Scatter = 1.5, true
	alone := small("p", 2, 20)
	assert.Equal(t, EveryRequest, Solve(alone, exactShared).Proof)
	plans := SolveAll([]Problem{alone, bursty}, exactShared)
	require.Len(t, plans[0].Devices, 1)
	assert.Equal(t, MeanRate, plans[0].Proof)
	assert.Equal(t, MeanRate, plans[1].Proof)
}

func TestPlansTogetherSayWhichIsInfeasible(t *testing.T) {
	bad := small("bad", 2, 20)
	bad.Pipeline.SLO = 15 * time.Millisecond
	plans := SolveAll([]Problem{small("p", 2, 20), bad}, exactShared)
	assert.Equal(t, Optimal, plans[0].Status)
	assert.Equal(t, Infeasible, plans[1].Status)
	assert.Contains(t, plans[1].Reason, "the fastest path a -> b needs 20 ms")
}

func TestSharedIsSoundAndBetweenItsBounds(t *testing.T) {
	several := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := unlimitedFew(t)
		if rapid.Bool().Draw(t, "low") {
			problem.Pipeline.Rate /= 30
		}
		p := Solve(problem, exactShared)
		whole := Solve(problem, exactWhole)
		require.Equal(t, whole.Status == Infeasible, p.Status == Infeasible, p.Reason)
		if p.Status == Infeasible {
			return
		}
		require.True(t, p.Sound, p.Describe())
		require.LessOrEqual(t, p.Cost, whole.Cost*(1+1e-9))
		share := Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		require.GreaterOrEqual(t, p.Cost, share.LowerBound*(1-1e-9))
		require.GreaterOrEqual(t, p.Cost, p.LowerBound*(1-1e-9))
		checkShared(t, problem, p)
		for _, d := range p.Devices {
			if len(d.Tasks) > 1 {
				several++
			}
		}
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var decoded Plan
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.Equal(t, len(p.Devices), len(decoded.Devices))
	})
	assert.NotZero(t, several)
}

func unlimitedFew(t *rapid.T) Problem {
	p := drawUnlimited(t)
	p.Pipeline.Modules = p.Pipeline.Modules[:min(4, len(p.Pipeline.Modules))]
	return p
}

// checkShared adds up what the plan pays for, and what its groups serve.
func checkShared(t *rapid.T, problem Problem, p Plan) {
	prices := map[string]float64{}
	for _, h := range problem.Hardware {
		prices[h.Name] = h.Price
	}
	cost := 0.0
	for _, d := range p.Devices {
		cost += d.Price
		share := 0.0
		for _, task := range d.Tasks {
			g := p.module(task.Module).Groups[task.Group]
			require.Equal(t, d.Hardware, g.Hardware)
			require.Equal(t, task.Deadline, g.Deadline)
			require.InDelta(t, g.Duration.Seconds()/g.Period.Seconds(), task.Share, 1e-9)
			share += task.Share
		}
		require.InDelta(t, share, d.Share, 1e-9)
		require.LessOrEqual(t, share, 1+1e-6)
	}
	for _, m := range p.Modules {
		served := 0.0
		for _, g := range m.Groups {
			served += g.Rate
			require.LessOrEqual(t, g.Window+max(g.Duration, g.Deadline), m.Budget)
			require.LessOrEqual(t, g.Rate*g.Period.Seconds(), float64(g.Batch)*(1+1e-6))
			if g.Deadline == 0 {
				cost += g.Machines * prices[g.Hardware]
			}
		}
		require.InDelta(t, m.Rate, served, 1e-6*(1+m.Rate))
	}
	require.InDelta(t, cost, p.Cost, 1e-6*(1+cost))
}

func (p *Plan) module(name string) *Module {
	for i := range p.Modules {
		if p.Modules[i].Name == name {
			return &p.Modules[i]
		}
	}
	return nil
}

func TestSharedInTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := unlimitedFew(t)
		full := Solve(problem, exactShared)
		budgets, err := SplitLatency(problem, exactShared)
		if err != nil {
			require.Equal(t, Infeasible, full.Status)
			return
		}
		steps, err := ScheduleModules(problem, exactShared, budgets)
		require.NoError(t, err)
		require.Equal(t, full, steps)
	})
}

func TestSharedKeepsCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawFew(t)
		problem.Pipeline.Rate /= 10
		p := Solve(problem, exactShared)
		if p.Status == Infeasible {
			return
		}
		for _, h := range problem.Hardware {
			if h.Count > 0 {
				require.LessOrEqual(t, p.machines(h.Name), float64(h.Count)*(1+1e-6))
			}
		}
	})
}

func BenchmarkShared(b *testing.B) {
	p := small("p", 5, 60)
	b.ReportAllocs()
	for b.Loop() {
		Solve(p, exactShared)
	}
}

// Two modules that each fill a device, of a cheap kind of which one exists: one
// of them takes it, the other the dearer kind.
func TestModulesShareALimitedKind(t *testing.T) {
	problem := small("p", 2, 350)
	problem.Hardware = append(problem.Hardware, pipelines.Hardware{Name: "dear", Price: 3})
	problem.Hardware[0].Count = 1
	for i := range problem.Pipeline.Modules {
		points := &problem.Pipeline.Modules[i].Profile.Points
		*points = append(append([]pipelines.Point{}, *points...), pipelines.Point{Hardware: "dear", Batch: 4, Concurrency: 1, Duration: 10 * time.Millisecond})
	}
	for _, o := range []Options{exactWhole, exactShared, asPaper, {Policy: PolicyExact, CostModel: CostProportional}} {
		p := Solve(problem, o)
		require.NotEqual(t, Infeasible, p.Status, p.Reason)
		assert.Equal(t, "v100 dear", groupKinds(&p), "%+v", o)
		assert.LessOrEqual(t, p.Cost, 4.0+1e-9)
	}
}

func groupKinds(p *Plan) string {
	a, b := p.Modules[0].Groups[0].Hardware, p.Modules[1].Groups[0].Hardware
	if a > b {
		return a + " " + b
	}
	return b + " " + a
}
