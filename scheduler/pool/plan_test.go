package pool

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// near is how close the prices of a bound come to the best, relative to it.
const near = 0.005

// drawProblem draws a small pool.
func drawProblem(t *rapid.T) Problem {
	const largest = 100
	p := Problem{Pool: pipelines.Pool{Name: "p", SLO: 50 * time.Millisecond, Base: "base", Hardware: []string{"base"}}}
	for g := range rapid.IntRange(1, 3).Draw(t, "kinds") {
		name, each := "base", rapid.Float64Range(0.05, 0.4).Draw(t, "base each")
		if g > 0 {
			name = fmt.Sprint("other", g)
			each = rapid.Float64Range(0.1, 2).Draw(t, "each")
			p.Pool.Hardware = append(p.Pool.Hardware, name)
		}
		fixed := rapid.Float64Range(0.1, 8).Draw(t, "fixed")
		p.Hardware = append(p.Hardware, pipelines.Hardware{Name: name, Price: rapid.Float64Range(0.2, 1).Draw(t, "price")})
		for _, size := range []int{1, largest} {
			p.Pool.Profile.Points = append(p.Pool.Profile.Points, pipelines.Point{
				Hardware: name, Batch: size, Concurrency: 1, Duration: time.Duration((fixed + each*float64(size)) * 1e6),
			})
		}
	}
	for size := 5; size <= largest; size += 19 {
		p.Pool.Sizes = append(p.Pool.Sizes, pipelines.Size{Size: size, Weight: rapid.Float64Range(0.01, 1).Draw(t, "weight")})
	}
	p.Pool.Budget = p.Hardware[0].Price * rapid.Float64Range(1, 2).Draw(t, "budget")
	p.Pool.Arrivals = rapid.SampledFrom([]string{"even", "poisson", "gamma:3"}).Draw(t, "arrivals")
	return p
}

// TestNothingExceedsTheBound plays policy matching against the bound, on random configurations.
func TestNothingExceedsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		s, err := newSolver(p, Options{Queries: 300}.complete())
		require.NoError(t, err)
		all, err := s.configurations()
		require.NoError(t, err)
		s.kairosChoice(all)
		s.draw(1)
		c := all[rapid.IntRange(0, len(all)-1).Draw(t, "configuration")].counts
		bound, cut := s.bound(c, s.load), s.cutBound(s.cuts(all[:min(3, len(all))]), c)
		rate, err := s.search.Goodput(s.trial(c), func() dispatch.Policy { return s.dispatcher(c) }, s.load, 2*math.Min(bound, 1e9))
		require.NoError(t, err)
		require.LessOrEqual(t, rate, bound)
		require.LessOrEqual(t, rate, cut)
	})
}

// TestPricesAreNearTheBest compares the prices found with a fine grid over the
// prices of two kinds.
func TestPricesAreNearTheBest(t *testing.T) {
	m, err := newMarket(problem(published.KairosModels()[4]))
	require.NoError(t, err)
	counts := []int{2, 0, 9, 0}
	c := newCapacity(m.weight, 0.99, len(m.kinds))
	got, _ := c.prices(m.kinds, counts, m.slo)
	best := 0.0
	for i := range 2000 {
		q := float64(i) / 2000
		best = math.Max(best, c.value(m.kinds, counts, m.slo, []float64{q, 0, 1 - q, 0}))
	}
	assert.InEpsilon(t, best, got, near)
}

func TestExactIsAtLeastAsGoodAsTheOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		plans := map[string]Plan{}
		for _, policy := range Policies() {
			plan := Solve(p, Options{Policy: policy, Queries: 80})
			require.NotEqual(t, Infeasible, plan.Status, plan.Reason)
			require.LessOrEqual(t, plan.Cost, p.Pool.Budget*(1+priceTolerance))
			require.LessOrEqual(t, plan.Goodput, plan.ProvenBound)
			if policy != PolicyHomogeneous {
				require.GreaterOrEqual(t, plan.Instances["base"], 1)
			}
			plans[policy] = plan
		}
		require.GreaterOrEqual(t, plans[PolicyExact].Goodput, plans[PolicyKairos].Goodput)
		require.LessOrEqual(t, plans[PolicyExact].Goodput, plans[PolicyExact].BestBound)
		// The pool of the base alone is among the configurations.
		alone := plans[PolicyHomogeneous]
		if alone.Instances["base"] > 0 {
			require.GreaterOrEqual(t, plans[PolicyExact].Goodput, alone.Goodput)
		}
	})
}

func TestConfigurationsKeepCounts(t *testing.T) {
	p := problem(published.KairosModels()[1])
	p.Hardware[2].Count = 3
	m, err := newMarket(p)
	require.NoError(t, err)
	all, err := m.configurations()
	require.NoError(t, err)
	most := 0
	for _, c := range all {
		require.GreaterOrEqual(t, c.counts[0], 1)
		require.LessOrEqual(t, m.cost(c.counts), 2.5+priceTolerance)
		most = max(most, c.counts[2])
	}
	assert.Equal(t, 3, most)
}

func TestSolveSaysWhatIsInTheWay(t *testing.T) {
	for want, change := range map[string]func(*Problem){
		"does not pay for one base instance": func(p *Problem) { p.Pool.Budget = 0.5 },
		"for a query of size":                func(p *Problem) { p.Pool.SLO = 200 * time.Millisecond },
		"the SLO must be":                    func(p *Problem) { p.Pool.SLO = 0 },
		"no query size":                      func(p *Problem) { p.Pool.Sizes = pipelines.Mix{{Size: 10}} },
		"serves no measured size":            func(p *Problem) { p.Pool.Sizes, p.Pool.SLO = nil, time.Millisecond },
		"is not among the kinds":             func(p *Problem) { p.Pool.Base = "none" },
		"the profile has no point on":        func(p *Problem) { p.Pool.Profile.Points = p.Pool.Profile.Points[:100] },
		"there are no arrivals \"bursts\"":   func(p *Problem) { p.Pool.Arrivals = "bursts" },
		"more than 1000000 configurations":   func(p *Problem) { p.Pool.Budget = 50 },
	} {
		p := problem(published.KairosModels()[1])
		change(&p)
		plan := Solve(p, Options{})
		assert.Equal(t, Infeasible, plan.Status)
		assert.Contains(t, plan.Reason, want)
		assert.Contains(t, plan.Describe(), "infeasible: ")
		_, err := json.Marshal(plan)
		assert.NoError(t, err)
	}
	assert.ErrorContains(t, Options{Policy: "best"}.Check(), "choose one of")
	assert.Error(t, Options{Queries: -1}.Check())
}

func TestLimitOnSimulations(t *testing.T) {
	p := problem(published.KairosModels()[3])
	p.Pool.Arrivals = "poisson"
	plan := Solve(p, Options{Queries: 2000, Simulations: 2})
	assert.Equal(t, Feasible, plan.Status)
	assert.Equal(t, 2, plan.Simulated)
	assert.Positive(t, plan.Gap())
}

func TestPlanRoundTrip(t *testing.T) {
	plan := Solve(problem(published.KairosModels()[1]), Options{Policy: PolicyKairos, Queries: 1000})
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	var back Plan
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, plan, back)
	for _, field := range []string{"pool", "policy", "status", "cost", "budget", "instances", "upper_bound_rate", "goodput_rate"} {
		assert.Contains(t, string(text), `"`+field+`":`)
	}
}

func TestSimulate(t *testing.T) {
	p := problem(published.KairosModels()[1])
	plan := Solve(p, Options{Policy: PolicyKairos, Queries: 1000})
	r, err := Simulate(p, plan, SimulateOptions{Rate: 100, Duration: 20 * time.Second, Arrivals: "poisson", Seed: 1})
	require.NoError(t, err)
	one := r.Pipelines[0]
	assert.EqualValues(t, 2000, one.Requests)
	assert.Equal(t, one.Requests, one.Completed+one.Late+one.Dropped)
	assert.Greater(t, one.Attainment, 0.99)
	assert.LessOrEqual(t, one.Latency.P50, one.Latency.P99)
	assert.LessOrEqual(t, one.Latency.Max, p.Pool.SLO)
	nobody, err := Simulate(p, plan, SimulateOptions{Duration: time.Second})
	require.NoError(t, err)
	assert.Zero(t, nobody.Total())
	for _, o := range []SimulateOptions{{Dispatch: "tc"}, {Arrivals: "often"}, {Rate: 1e9, Duration: time.Hour}} {
		_, err := Simulate(p, plan, o)
		assert.Error(t, err)
	}
}

func TestCompare(t *testing.T) {
	c := Compare(problem(published.KairosModels()[1]), Options{Queries: 500})
	require.Len(t, c.Plans, len(compared()))
	assert.Equal(t, PolicyExact, c.Best().Policy)
	text := c.Describe()
	for _, want := range []string{"rm2: goodput in queries/s with even arrivals, budget 2.5", "exact", "kairos", "homogeneous", "4 x g4dn.xlarge"} {
		assert.Contains(t, text, want)
	}
	p := problem(published.KairosModels()[1])
	p.Pool.Budget = 0.1
	none := Compare(p, Options{})
	assert.Nil(t, none.Best())
	assert.Contains(t, none.Describe(), "infeasible")
}

func BenchmarkBounds(b *testing.B) {
	m, err := newMarket(problem(published.KairosModels()[1]))
	require.NoError(b, err)
	all, err := m.configurations()
	require.NoError(b, err)
	b.Run("estimates of 331 configurations", func(b *testing.B) {
		s := solver{market: m}
		b.ReportAllocs()
		for b.Loop() {
			s.kairosChoice(all)
		}
	})
	b.Run("one proven bound", func(b *testing.B) {
		c := newCapacity(m.weight, 0.99, len(m.kinds))
		b.ReportAllocs()
		for b.Loop() {
			c.prices(m.kinds, []int{1, 1, 9, 1}, m.slo)
		}
	})
}

func ExampleSolve() {
	var points []pipelines.Point
	for _, size := range []int{10, 1000} {
		points = append(points,
			pipelines.Point{Hardware: "gpu", Batch: size, Concurrency: 1, Duration: time.Duration(size) * 250 * time.Microsecond},
			pipelines.Point{Hardware: "cpu", Batch: size, Concurrency: 1, Duration: time.Duration(size) * 400 * time.Microsecond})
	}
	plan := Solve(Problem{
		Pool: pipelines.Pool{
			Name: "ranking", SLO: 350 * time.Millisecond, Budget: 2.5, Base: "gpu",
			Profile: pipelines.Profile{Points: points},
			Sizes:   pipelines.Mix{{Size: 100, Weight: 8}, {Size: 500, Weight: 1}, {Size: 1000, Weight: 0.2}},
		},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 0.53}, {Name: "cpu", Price: 0.15}},
	}, Options{Policy: PolicyKairos, Queries: 2000})
	fmt.Println(plan.Status, plan.Instances)
	// Output: feasible map[cpu:9 gpu:2]
}

// problem is a model of the paper under the paper's budget.
func problem(m published.KairosModel) (p Problem) {
	p.Pool, p.Hardware = m.Pool()
	return p
}
