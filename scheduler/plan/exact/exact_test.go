package exact

import (
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// drawLess has a test that takes minutes draw a quarter of its problems, unless
// HARPAGON_LONG is set.
func drawLess(t *testing.T) (all bool) {
	if os.Getenv("HARPAGON_LONG") != "" {
		return true
	}
	draw(t, "25")
	return false
}

// draw has a test draw so many problems.
func draw(t *testing.T, n string) {
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	require.NoError(t, checks.Set(n))
	t.Cleanup(func() { require.NoError(t, checks.Set(before)) })
}

// M3 of Table I at 198 requests per time.Second and one time.Second: five machines at
// 99 % load, a batch of 32 every 162 ms, and no dummy requests.
func TestExactNeedsNoDummiesForTableII(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM3(), 198, time.Second), plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
	require.Equal(t, plan.Optimal, p.Status, p.Reason)
	assert.InDelta(t, 4.95, p.Cost, 1e-9)
	assert.InDelta(t, 4.95, p.LowerBound, 1e-8)
	assert.True(t, p.Sound)
	g := p.Modules[0].Groups[0]
	assert.Equal(t, 32, g.Batch)
	assert.Zero(t, g.DummyRate)
	assert.InDelta(t, 0.1616, g.Period.Seconds(), 1e-4)
	assert.InDelta(t, 0.9616, p.Latency.Seconds(), 1e-4)
}

// M1 at 19 requests per time.Second and 405 ms: batch 4 costs 1.0 with one dummy
// request per time.Second. Half a dummy request per time.Second is enough to collect a
// batch in the 205 ms that are left, which costs 0.976.
func TestExactPacesALowRate(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM1(), 19, 405*time.Millisecond), plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
	require.Equal(t, plan.Optimal, p.Status, p.Reason)
	assert.Equal(t, 4, p.Modules[0].Groups[0].Batch)
	assert.InDelta(t, 0.2/0.205, p.Cost, 1e-6)
	assert.LessOrEqual(t, p.Cost, 1.0)
}

func TestExactIsOptimalAndNeverDearerThanHarpagon(t *testing.T) {
	optimal, feasible := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		paper, p := solve(problem, asPaper), solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		if paper.Status != plan.Infeasible && !plantest.WaitsForNobody(paper) {
			require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
			require.LessOrEqual(t, p.Cost, paper.Cost*(1+1e-6))
			require.LessOrEqual(t, p.LowerBound, paper.Cost*(1+1e-6), "a bound on every plan")
		}
		if p.Status == plan.Infeasible {
			return
		}
		feasible++
		plantest.CheckPlan(t, problem, asPaper, p)
		require.True(t, p.Sound)
		if p.Status == plan.Optimal {
			optimal++
		}
	})
	t.Logf("%d of %d plans proven optimal", optimal, feasible)
	assert.GreaterOrEqual(t, optimal*100, feasible*95)
}

func TestExactUnderCountsKeepsThemAndItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		p := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		if p.Status == plan.Infeasible {
			return
		}
		plantest.CheckPlan(t, problem, asPaper, p)
		require.LessOrEqual(t, p.LowerBound, p.Cost)
	})
}

func TestExactInTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		o := plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional}
		whole := solve(problem, o)
		budgets, err := splitLatency(problem, o)
		if err != nil {
			require.Equal(t, plan.Infeasible, whole.Status)
			return
		}
		steps, err := scheduleModules(problem, o, budgets)
		require.NoError(t, err)
		require.Equal(t, whole, steps)
	})
}

// twin is the least cost over a grid of budgets, then over finer and finer
// grids around the best ones. It uses no relaxations.
type twin struct {
	p    *plan.Prepared
	best float64
	at   []time.Duration
}

func (w *twin) search(low, high []time.Duration, steps int) {
	w.level(low, high, steps, make([]time.Duration, 0, len(low)), 0)
}

func (w *twin) level(low, high []time.Duration, steps int, chosen []time.Duration, cost float64) {
	i := len(chosen)
	if i == len(low) {
		if cost < w.best && w.p.DAG.Longest(chosen) <= w.p.Pipeline.SLO {
			w.best, w.at = cost, append([]time.Duration{}, chosen...)
		}
		return
	}
	var budgets []time.Duration
	for k := range steps + 1 {
		budgets = append(budgets, low[i]+time.Duration(float64(high[i]-low[i])*float64(k)/float64(steps)))
	}
	for _, c := range w.p.Modules[i].Configs { // from just above a duration on there is a cost
		if l := c.Duration + 2; low[i] <= l && l <= high[i] {
			budgets = append(budgets, l)
		}
	}
	for _, budget := range budgets {
		if set, ok := split.Cheapest(w.p.Modules[i], budget); ok {
			w.level(low, high, steps, append(chosen, budget), cost+set.Weight)
		}
	}
}

func (w *twin) refine(rounds, steps int) {
	slo := w.p.Pipeline.SLO
	width := slo / 12
	for range rounds {
		low, high := make([]time.Duration, len(w.at)), make([]time.Duration, len(w.at))
		for i, l := range w.at {
			low[i], high[i] = max(0, l-width), min(slo, l+width)
		}
		w.search(low, high, steps)
		width /= 2
	}
}

func TestExactAgainstABruteForceTwin(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		if len(problem.Pipeline.Modules) > 3 {
			problem.Pipeline.Modules = problem.Pipeline.Modules[:3]
		}
		p := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		pl, err := plan.Prepare(&problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional}, exactly)
		require.NoError(t, err)
		w := &twin{p: pl, best: math.Inf(1)}
		n := len(pl.Modules)
		low, high := make([]time.Duration, n), make([]time.Duration, n)
		for i := range high {
			high[i] = problem.Pipeline.SLO
		}
		w.search(low, high, 24)
		if w.at == nil {
			return // the grid is too coarse to hold a plan
		}
		w.refine(10, 6)
		compared++
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		require.LessOrEqual(t, p.Cost, w.best*(1+1e-6), "no split of the twin is cheaper")
		require.LessOrEqual(t, p.LowerBound, w.best*(1+1e-9), "the bound holds for the twin's split")
		require.LessOrEqual(t, w.best, p.Cost*1.25+1e-9, "the twin comes near")
	})
	assert.NotZero(t, compared)
}

func TestExactOnOddNumbers(t *testing.T) {
	for _, set := range []func(*plan.Problem){
		func(p *plan.Problem) { p.Pipeline.Rate = 0 },
		func(p *plan.Problem) { p.Pipeline.Rate = 1e12 },
		func(p *plan.Problem) { p.Pipeline.Rate = 1e-12 },
		func(p *plan.Problem) { p.Pipeline.SLO = math.MaxInt64 },
		func(p *plan.Problem) { p.Pipeline.SLO = 1 },
		func(p *plan.Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = math.MaxInt32 },
		func(p *plan.Problem) { p.Hardware[0].Price = 1e300 },
		func(p *plan.Problem) { p.Hardware[0].Price = 0 },
		func(p *plan.Problem) { p.Hardware[0].Price, p.Hardware[1].Price = 0, 0 },
	} {
		p := plantest.Traffic()
		set(&p)
		out := solve(p, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		assert.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0))
		assert.False(t, math.IsNaN(out.LowerBound) || math.IsInf(out.LowerBound, 0))
	}
}

// A time limit leaves the best plan found, and a bound that still holds.
func TestExactUnderATimeLimit(t *testing.T) {
	now := time.Duration(0)
	tick := func() time.Duration { now += time.Second; return now }
	full := solve(plantest.Traffic(), plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
	cut := solve(plantest.Traffic(), plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional, TimeLimit: time.Second, Clock: tick})
	require.NotEqual(t, plan.Infeasible, cut.Status, cut.Reason)
	assert.LessOrEqual(t, cut.LowerBound, full.Cost*(1+1e-9))
	assert.GreaterOrEqual(t, cut.Cost, full.LowerBound)
}

func BenchmarkExact(b *testing.B) {
	p := plantest.Traffic()
	b.ReportAllocs()
	for b.Loop() {
		solve(p, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
	}
}

func BenchmarkExactChain(b *testing.B) {
	for _, n := range []int{5, 10, 20} {
		p := plantest.Traffic()
		m := p.Pipeline.Modules[0]
		p.Pipeline.Modules = nil
		for i := range n {
			twin := m
			twin.Name = fmt.Sprintf("m%d", i)
			if i > 0 {
				twin.Inputs = p.Pipeline.Modules[0].Inputs
			}
			p.Pipeline.Modules = append(p.Pipeline.Modules, twin)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solve(p, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
			}
		})
	}
}
