package paper

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

var asBrute = plan.Options{Policy: plan.PolicyBrute, CostModel: plan.CostProportional}

// Table II, M3 at 198 requests per second: S4 is the best of the papers'
// reading; without dummy requests S3 is.
func TestBruteOfTableII(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM3(), 198, second), asBrute)
	require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
	assert.InDelta(t, 5.0, p.Cost, 1e-9)
	assert.InDelta(t, 5.0, p.LowerBound, 1e-9)
	assert.Equal(t, BruteReading, p.Restriction)

	o := asBrute
	o.Without = []string{"dummy"}
	p = solve(plantest.OneModule(plantest.TableM3(), 198, second), o)
	require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
	assert.InDelta(t, 5.3, p.Cost, 1e-9)
}

// drawSmall makes problems that the twin below can enumerate.
func drawSmall(t *rapid.T) plan.Problem {
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: rapid.SampledFrom([]float64{1, 1.7, 0.4}).Draw(t, "price")}}}
	p.Pipeline = pipelines.Pipeline{
		Name: "p", SLO: time.Duration(rapid.IntRange(100, 3000).Draw(t, "slo")) * time.Millisecond,
		Rate: rapid.Float64Range(0.5, 30).Draw(t, "rate"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "modules") {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		for j := range i {
			if rapid.Bool().Draw(t, "edge") {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("i%d", j), From: pipelines.Ref{Module: fmt.Sprintf("m%d", j), Port: "out"}})
			}
		}
		for k := range rapid.IntRange(1, 3).Draw(t, "points") {
			batch := rapid.IntRange(1, 8).Draw(t, "batch")
			throughput := rapid.SampledFrom([]float64{4, 5, 7.5, 10, 16}).Draw(t, "throughput") // ties are likely
			m.Profile.Points = append(m.Profile.Points, pipelines.Point{
				Hardware: []string{"a", "b"}[k%2], Batch: batch, Concurrency: 1, Duration: plan.ToDuration(float64(batch) / throughput)})
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	return p
}

// outcome is what the twin computes of a configuration set.
type outcome struct {
	worst time.Duration
	cost  float64
}

// dumb writes down every configuration set of a module, straight from the
// definition: all counts, all choices of the partly used machine.
func dumb(s *plan.ModuleProblem, longest time.Duration) []outcome {
	var all []outcome
	counts := make([]int, len(s.Configs))
	var walk func(i int)
	walk = func(i int) {
		if i < len(counts) {
			for counts[i] = 0; float64(counts[i]) < s.Rate/s.Configs[i].Throughput()+1; counts[i]++ {
				walk(i + 1)
			}
			counts[i] = 0
			return
		}
		for part := -1; part < len(counts); part++ {
			if o, ok := judge(s, counts, part); ok && o.worst <= longest {
				all = append(all, o)
			}
		}
	}
	walk(0)
	return all
}

func judge(s *plan.ModuleProblem, counts []int, part int) (o outcome, ok bool) {
	full, last := 0.0, -1
	for i, n := range counts {
		full += float64(n) * s.Configs[i].Throughput()
		if n > 0 {
			last = i
		}
	}
	rates := make([]float64, len(counts))
	for i, n := range counts {
		rates[i] = float64(n) * s.Configs[i].Throughput()
		o.cost += float64(n) * s.Configs[i].Price
	}
	short := s.Rate - full
	noise := 1e-9 * s.Rate
	switch {
	case part < 0:
		if short > noise || short+s.Configs[last].Throughput() <= noise {
			return o, false // too few, or the last machine is superfluous
		}
	default:
		c := s.Configs[part]
		if short <= noise || short >= c.Throughput()*(1-1e-9) {
			return o, false
		}
		rates[part] += short
		o.cost += c.Price * short / c.Throughput()
		if o.worst = c.Duration; c.Batch > 1 {
			o.worst += plan.ToDuration(float64(c.Batch) / short)
		}
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		w := 0.0
		for j := range rates {
			if s.Configs[j].Unit() >= s.Configs[i].Unit()*(1-1e-9) {
				w += rates[j]
			}
		}
		o.worst = max(o.worst, s.Configs[i].Duration+plan.ToDuration(float64(s.Configs[i].Batch)/w))
	}
	return o, true
}

func dumbSplit(p *plan.Prepared, all [][]outcome, worst []time.Duration) float64 {
	i := len(worst)
	if p.DAG.Longest(append(worst, make([]time.Duration, len(all)-i)...)) > p.Pipeline.SLO {
		return math.Inf(1)
	}
	if i == len(all) {
		return 0
	}
	best := math.Inf(1)
	for _, o := range all[i] {
		best = math.Min(best, o.cost+dumbSplit(p, all, append(worst, o.worst)))
	}
	return best
}

// Against the twin, without what the other policies found.
func TestBruteAgainstAllSetsAndSplits(t *testing.T) {
	feasible := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := drawSmall(t)
		o := asBrute
		ready, err := plan.Prepare(&problem, o, brute{})
		require.NoError(t, err)
		p := newBruteSearch(ready)
		p.others = nil
		var all [][]outcome
		for _, m := range p.Modules {
			all = append(all, undominatedOutcomes(dumb(m, problem.Pipeline.SLO)))
		}
		want := dumbSplit(ready, all, nil)
		split, bound, ok := p.combine()
		require.Equal(t, !math.IsInf(want, 1), ok)
		if !ok {
			return
		}
		feasible++
		got := 0.0
		for i := range p.Modules {
			set, ok := p.solve(i, split[i])
			require.True(t, ok)
			got += set.Weight
		}
		require.InEpsilon(t, want, got, 1e-6)
		require.LessOrEqual(t, bound, want*(1+1e-9))
		require.GreaterOrEqual(t, bound, want*(1-1e-6))
	})
	assert.NotZero(t, feasible)
}

func undominatedOutcomes(all []outcome) []outcome {
	var kept []outcome
next:
	for i, a := range all {
		for j, b := range all {
			if b.worst <= a.worst && b.cost <= a.cost && (b != a || j < i) {
				continue next
			}
		}
		kept = append(kept, a)
	}
	return kept
}

func TestBruteIsTheYardstick(t *testing.T) {
	done := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimitedFew(t) // what exhaustive search gets through
		problem.Pipeline.Modules = problem.Pipeline.Modules[:min(3, len(problem.Pipeline.Modules))]
		best := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		brute := solve(problem, asBrute)
		for _, policy := range []string{plan.PolicyHarpagon, plan.PolicyPiccolo} {
			p := solve(problem, plan.Options{Policy: policy, CostModel: plan.CostProportional})
			if p.Status == plan.Infeasible {
				continue
			}
			done++
			require.NotEqual(t, plan.Infeasible, brute.Status, brute.Reason)
			require.LessOrEqual(t, brute.Cost, p.Cost*(1+1e-6), policy)
		}
		if brute.Status == plan.Infeasible {
			return
		}
		plantest.CheckPlan(t, problem, plan.Options{}, brute)
		if brute.Sound || !plantest.WaitsForNobody(brute) {
			require.NotEqual(t, plan.Infeasible, best.Status, best.Reason)
			require.LessOrEqual(t, best.Cost, brute.Cost*(1+1e-6))
		}
		require.Empty(t, brute.Reason, "nothing was cut off")
		require.InEpsilon(t, 1+brute.Cost, 1+brute.LowerBound, 1e-6)
	})
	assert.NotZero(t, done)
}

func TestBruteInTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		whole := solve(problem, asBrute)
		budgets, err := splitLatency(problem, asBrute)
		if err != nil {
			require.Equal(t, plan.Infeasible, whole.Status)
			return
		}
		steps, err := scheduleModules(problem, asBrute, budgets)
		require.NoError(t, err)
		require.Equal(t, whole, steps)
	})
}

// A time limit ends the search; what is known by then is a plan all the same.
func TestBruteCutOff(t *testing.T) {
	o := asBrute
	now := time.Duration(0)
	o.Clock = func() time.Duration { now += time.Second; return now }
	o.TimeLimit = time.Millisecond
	p := solve(plantest.Traffic(), o)
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.Contains(t, p.Reason, "cut off")
	assert.Zero(t, p.LowerBound)
	assert.LessOrEqual(t, p.Cost, solve(plantest.Traffic(), asPaper).Cost*(1+1e-9))
}
