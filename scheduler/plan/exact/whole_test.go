package exact

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

var exactWhole = plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostWhole}

// Three machines, each 80 ms a batch of 8, start one every 26.7 ms.
func TestWholeCountsDevices(t *testing.T) {
	p := solve(plantest.OneKind(3.06, 300, 400*time.Millisecond, pipelines.Point{Batch: 8, Duration: 80 * time.Millisecond}), exactWhole)
	require.Equal(t, plan.Optimal, p.Status, p.Reason)
	assert.Empty(t, p.Restriction)
	assert.InDelta(t, 9.18, p.Cost, 1e-9)
	assert.InDelta(t, 9.18, p.LowerBound, 1e-6)
	g := p.Modules[0].Groups[0]
	assert.Equal(t, 3.0, g.Machines)
	assert.InDelta(t, 0.026667, g.Period.Seconds(), 1e-6)
	assert.InDelta(t, 0.106667, p.Latency.Seconds(), 1e-6)
	assert.Equal(t, plan.EveryRequest, p.Proof)
}

// A batch may leave partly filled: a second machine that capacity does not need
// halves the window, and no dummy requests are paid for.
func TestWholeBuysShorterWindows(t *testing.T) {
	point := pipelines.Point{Batch: 32, Duration: 80 * time.Millisecond}
	one := solve(plantest.OneKind(1, 100, 160*time.Millisecond, point), exactWhole)
	two := solve(plantest.OneKind(1, 100, 159*time.Millisecond, point), exactWhole)
	assert.InDelta(t, 1, one.Cost, 1e-9)
	assert.InDelta(t, 2, two.Cost, 1e-9)
	g := two.Modules[0].Groups[0]
	assert.Zero(t, g.DummyRate)
	assert.Equal(t, 79*time.Millisecond, g.Period, "as long as the budget allows")
}

func TestWholeIsSoundAndNeverDearer(t *testing.T) {
	optimal, feasible, restricted := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		p := solve(problem, exactWhole)
		if p.Status == plan.Infeasible {
			return
		}
		feasible++
		plantest.CheckPlan(t, problem, asPaper, p)
		require.True(t, p.Sound)
		require.LessOrEqual(t, p.LowerBound, p.Cost)
		if p.Status == plan.Optimal {
			optimal++
		}
		if p.Restriction != "" {
			restricted++
		}
		for _, policy := range names() {
			other := solve(problem, plan.Options{Policy: policy, CostModel: plan.CostWhole})
			if other.Status != plan.Infeasible && other.Sound && other.Proof == p.Proof {
				require.LessOrEqual(t, p.Cost, other.Cost*(1+1e-9), "%s\n%s", other.Describe(), p.Describe())
				require.LessOrEqual(t, p.LowerBound, other.Cost*(1+1e-9), policy)
			}
		}
		share := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		require.LessOrEqual(t, share.LowerBound, p.Cost*(1+1e-9), "fractions of devices cost no more than whole ones")
	})
	t.Logf("%d of %d plans proven optimal, %d of them under a restriction", optimal, feasible, restricted)
	assert.GreaterOrEqual(t, optimal*100, feasible*97)
}

func TestWholeInTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawFew(t)
		full := solve(problem, exactWhole)
		budgets, err := splitLatency(problem, exactWhole)
		if err != nil {
			require.Equal(t, plan.Infeasible, full.Status)
			return
		}
		steps, err := scheduleModules(problem, exactWhole, budgets)
		require.NoError(t, err)
		require.Equal(t, full, steps)
	})
}

// The twin uses no knapsacks: it tries numbers of machines, periods and rates on a grid by
// the processor-demand test. That test takes the stream for a fluid; a mixture that has one
// inter-arrival time to spare keeps single requests, too (package demand), so neither the
// plan nor the bound, which is no higher, may be dearer.
func TestWholeAgainstABruteForceTwin(t *testing.T) {
	mixed := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := drawPair(t)
		p := solve(problem, exactWhole)
		if p.Status == plan.Infeasible || p.Cost > 12 {
			return
		}
		if len(p.Modules[0].Groups) > 1 {
			mixed++
		}
		require.LessOrEqual(t, p.LowerBound, p.Cost)
		twin := twinWhole(problem, p.Cost, 1/problem.Pipeline.Rate)
		require.LessOrEqual(t, p.Cost, twin*(1+1e-9), "%v %s", problem, p.Describe())
	})
	t.Logf("%d mixtures of two kinds", mixed)
}

// drawPair is one module on two kinds of hardware that are about equally good
// value, so that mixtures pay.
func drawPair(t *rapid.T) plan.Problem {
	m := pipelines.Module{Name: "m", Fanout: 1}
	speed := rapid.Float64Range(1.1, 2.5).Draw(t, "speed")
	value := rapid.Float64Range(0.9, 1.1).Draw(t, "value")
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: speed * value}}}
	fixed, each := rapid.Float64Range(5, 30).Draw(t, "fixed"), rapid.Float64Range(1, 8).Draw(t, "each")
	for _, b := range []int{1, 4, 16} {
		d := (fixed + each*float64(b)) * 1e6
		m.Profile.Points = append(m.Profile.Points,
			pipelines.Point{Hardware: "a", Batch: b, Concurrency: 1, Duration: time.Duration(d)},
			pipelines.Point{Hardware: "b", Batch: b, Concurrency: 1, Duration: time.Duration(d / speed)})
	}
	p.Pipeline = pipelines.Pipeline{
		Name: "p", Rate: rapid.Float64Range(5, 150).Draw(t, "rate"),
		SLO:     time.Duration(rapid.IntRange(30, 400).Draw(t, "slo")) * time.Millisecond,
		Modules: []pipelines.Module{m},
	}
	return p
}

// twinWhole is the least cost, up to a limit, that a coarse search finds.
// Mixtures have that many seconds of the SLO to spare.
func twinWhole(p plan.Problem, limit, spare float64) float64 {
	best := math.Inf(1)
	points, rate, slo := p.Pipeline.Modules[0].Profile.Points, p.Pipeline.Rate, p.Pipeline.SLO.Seconds()
	prices := map[string]float64{"a": p.Hardware[0].Price, "b": p.Hardware[1].Price}
	sound := func(groups ...demand.Group) bool { return demand.Test(rate, groups).Sound }
	for i, a := range points {
		for n := 1; float64(n)*prices[a.Hardware] < limit*(1-1e-9); n++ {
			gap := a.Duration.Seconds() / float64(n)
			if rate*gap <= float64(a.Batch) && sound(demand.Group{Batch: rate * gap, Period: gap, Window: slo - a.Duration.Seconds()}) {
				best = math.Min(best, float64(n)*prices[a.Hardware])
			}
			for _, b := range points[:i] {
				for k := 1; float64(n)*prices[a.Hardware]+float64(k)*prices[b.Hardware] < limit*(1-1e-9); k++ {
					if twinPair(rate, slo-spare, a, b, n, k, sound) {
						best = math.Min(best, float64(n)*prices[a.Hardware]+float64(k)*prices[b.Hardware])
					}
				}
			}
		}
	}
	if math.IsInf(best, 1) {
		return limit
	}
	return best
}

func twinPair(rate, slo float64, a, b pipelines.Point, n, k int, sound func(...demand.Group) bool) bool {
	wa, wb := slo-a.Duration.Seconds(), slo-b.Duration.Seconds()
	if wa <= 0 || wb <= 0 {
		return false
	}
	ga, gb := a.Duration.Seconds()/float64(n), b.Duration.Seconds()/float64(k)
	for _, pa := range []float64{ga, 1.05 * ga, 1.2 * ga, math.Max(ga, gb), 2 * gb, gb / 2} {
		for _, pb := range []float64{gb, 1.1 * gb, math.Max(ga, gb), 2 * ga, ga / 2} {
			if pa < ga || pb < gb {
				continue
			}
			for x := 0.05; x < 1; x += 0.05 {
				fa, fb := x*rate*pa, (1-x)*rate*pb
				if fa > float64(a.Batch) || fb > float64(b.Batch) {
					continue
				}
				if sound(demand.Group{Batch: fa, Period: pa, Window: wa}, demand.Group{Batch: fb, Period: pb, Window: wb}) {
					return true
				}
			}
		}
	}
	return false
}

func TestWholeOnOddNumbers(t *testing.T) {
	for i, set := range []func(*plan.Problem){
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
		out := solve(p, exactWhole)
		assert.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0), i)
		assert.False(t, math.IsNaN(out.LowerBound) || math.IsInf(out.LowerBound, 0), i)
	}
}

func BenchmarkWhole(b *testing.B) {
	p := plantest.Traffic()
	b.ReportAllocs()
	for b.Loop() {
		solve(p, exactWhole)
	}
}
