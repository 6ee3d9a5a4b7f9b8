package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// M3 of Table I at 198 requests per second and one second: five machines at
// 99 % load, a batch of 32 every 162 ms, and no dummy requests.
func TestExactNeedsNoDummiesForTableII(t *testing.T) {
	p := Solve(oneModule(tableM3(), 198, second), Options{Policy: PolicyExact, CostModel: CostProportional})
	require.Equal(t, Optimal, p.Status, p.Reason)
	assert.InDelta(t, 4.95, p.Cost, 1e-9)
	assert.InDelta(t, 4.95, p.LowerBound, 1e-8)
	assert.True(t, p.Sound)
	g := p.Modules[0].Groups[0]
	assert.Equal(t, 32, g.Batch)
	assert.Zero(t, g.DummyRate)
	assert.InDelta(t, 0.1616, g.Period.Seconds(), 1e-4)
	assert.InDelta(t, 0.9616, p.Latency.Seconds(), 1e-4)
}

// M1 at 19 requests per second and 405 ms: batch 4 costs 1.0 with one dummy
// request per second. Half a dummy request per second is enough to collect a
// batch in the 205 ms that are left, which costs 0.976.
func TestExactPacesALowRate(t *testing.T) {
	p := Solve(oneModule(tableM1(), 19, 405*time.Millisecond), Options{Policy: PolicyExact, CostModel: CostProportional})
	require.Equal(t, Optimal, p.Status, p.Reason)
	assert.Equal(t, 4, p.Modules[0].Groups[0].Batch)
	assert.InDelta(t, 0.2/0.205, p.Cost, 1e-6)
	assert.LessOrEqual(t, p.Cost, 1.0)
}

func drawUnlimited(t *rapid.T) Problem {
	p := drawProblem(t)
	for i := range p.Hardware {
		p.Hardware[i].Count = 0
	}
	return p
}

func TestExactIsOptimalAndNeverDearerThanHarpagon(t *testing.T) {
	optimal, feasible := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		problem := drawUnlimited(t)
		paper, p := Solve(problem, asPaper), Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		if paper.Status != Infeasible {
			require.NotEqual(t, Infeasible, p.Status, p.Reason)
			require.LessOrEqual(t, p.Cost, paper.Cost*(1+1e-6))
			require.LessOrEqual(t, p.LowerBound, paper.Cost*(1+1e-6), "a bound on every plan")
		}
		if p.Status == Infeasible {
			return
		}
		feasible++
		checkPlan(t, problem, asPaper, p)
		require.True(t, p.Sound)
		if p.Status == Optimal {
			optimal++
		}
	})
	t.Logf("%d of %d plans proven optimal", optimal, feasible)
	assert.GreaterOrEqual(t, optimal*100, feasible*95)
}

func TestExactUnderCountsKeepsThemAndItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		p := Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		if p.Status == Infeasible {
			return
		}
		checkPlan(t, problem, asPaper, p)
		require.LessOrEqual(t, p.LowerBound, p.Cost)
	})
}

func TestExactInTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		o := Options{Policy: PolicyExact, CostModel: CostProportional}
		whole := Solve(problem, o)
		budgets, err := SplitLatency(problem, o)
		if err != nil {
			require.Equal(t, Infeasible, whole.Status)
			return
		}
		steps, err := ScheduleModules(problem, o, budgets)
		require.NoError(t, err)
		require.Equal(t, whole, steps)
	})
}

// twin is the least cost over a grid of budgets, then over finer and finer
// grids around the best ones. It knows nothing of relaxations.
type twin struct {
	p    *planner
	best float64
	at   []time.Duration
}

func (w *twin) search(low, high []time.Duration, steps int) {
	w.level(low, high, steps, make([]time.Duration, 0, len(low)), 0)
}

func (w *twin) level(low, high []time.Duration, steps int, chosen []time.Duration, cost float64) {
	i := len(chosen)
	if i == len(low) {
		if cost < w.best && w.p.dag.longest(chosen) <= w.p.pipe.SLO {
			w.best, w.at = cost, append([]time.Duration{}, chosen...)
		}
		return
	}
	for k := range steps + 1 {
		budget := low[i] + time.Duration(float64(high[i]-low[i])*float64(k)/float64(steps))
		if set, ok := w.p.modules[i].single(budget); ok {
			w.level(low, high, steps, append(chosen, budget), cost+set.weight)
		}
	}
}

func (w *twin) refine(rounds, steps int) {
	slo := w.p.pipe.SLO
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
		problem := drawUnlimited(t)
		if len(problem.Pipeline.Modules) > 3 {
			problem.Pipeline.Modules = problem.Pipeline.Modules[:3]
		}
		p := Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		pl, err := newPlanner(&problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		require.NoError(t, err)
		w := &twin{p: pl, best: math.Inf(1)}
		n := len(pl.modules)
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
		require.NotEqual(t, Infeasible, p.Status, p.Reason)
		require.LessOrEqual(t, p.Cost, w.best*(1+1e-6), "no split of the twin is cheaper")
		require.LessOrEqual(t, p.LowerBound, w.best*(1+1e-9), "the bound holds for the twin's split")
		require.LessOrEqual(t, w.best, p.Cost*1.25+1e-9, "the twin comes near")
	})
	assert.NotZero(t, compared)
}

// Any flow gives a bound, not only the best one.
func TestEveryFlowBoundsEverySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawUnlimited(t)
		pl, err := newPlanner(&problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		require.NoError(t, err)
		p := Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		if p.Status == Infeasible {
			return
		}
		costs, scale := pl.frontiers()
		r := newRelaxation(pl.dag, trades(costs), problem.Pipeline.SLO.Seconds())
		r.low, r.high = make([]float64, len(costs)), make([]float64, len(costs))
		for i, f := range costs {
			r.low[i], r.high[i] = f.fastest(), r.slo
		}
		bound := r.solve(rapid.Float64Range(1e-3, 1e3).Draw(t, "reference"), math.Inf(1))
		require.LessOrEqual(t, bound*scale, p.Cost*(1+1e-9)+1e-12)
	})
}

func TestExactOnOddNumbers(t *testing.T) {
	for _, set := range []func(*Problem){
		func(p *Problem) { p.Pipeline.Rate = 0 },
		func(p *Problem) { p.Pipeline.Rate = 1e12 },
		func(p *Problem) { p.Pipeline.Rate = 1e-12 },
		func(p *Problem) { p.Pipeline.SLO = math.MaxInt64 },
		func(p *Problem) { p.Pipeline.SLO = 1 },
		func(p *Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = math.MaxInt32 },
		func(p *Problem) { p.Hardware[0].Price = 1e300 },
		func(p *Problem) { p.Hardware[0].Price = 0 },
		func(p *Problem) { p.Hardware[0].Price, p.Hardware[1].Price = 0, 0 },
	} {
		p := traffic()
		set(&p)
		out := Solve(p, Options{Policy: PolicyExact, CostModel: CostProportional})
		assert.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0))
		assert.False(t, math.IsNaN(out.LowerBound) || math.IsInf(out.LowerBound, 0))
	}
}

// A time limit leaves the best plan found, and a bound that still holds.
func TestExactUnderATimeLimit(t *testing.T) {
	now := time.Duration(0)
	tick := func() time.Duration { now += time.Second; return now }
	full := Solve(traffic(), Options{Policy: PolicyExact, CostModel: CostProportional})
	cut := Solve(traffic(), Options{Policy: PolicyExact, CostModel: CostProportional, TimeLimit: time.Second, Clock: tick})
	require.NotEqual(t, Infeasible, cut.Status, cut.Reason)
	assert.LessOrEqual(t, cut.LowerBound, full.Cost*(1+1e-9))
	assert.GreaterOrEqual(t, cut.Cost, full.LowerBound)
}

func BenchmarkExact(b *testing.B) {
	p := traffic()
	b.ReportAllocs()
	for b.Loop() {
		Solve(p, Options{Policy: PolicyExact, CostModel: CostProportional})
	}
}

func BenchmarkExactChain(b *testing.B) {
	for _, n := range []int{5, 10, 20} {
		p := traffic()
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
				Solve(p, Options{Policy: PolicyExact, CostModel: CostProportional})
			}
		})
	}
}
