package experiments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// No rule answers more than the bound, on the same arrivals.
func TestNoRuleIsAboveTheBound(t *testing.T) {
	tight := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Chain("p", rapid.IntRange(1, 4).Draw(t, "modules"), rapid.Float64Range(20, 300).Draw(t, "rate"))
		problem.Pipeline.Arrivals = "poisson"
		p := policies.Solve(problem, plan.Options{CostModel: plan.CostWhole})
		if p.Status == plan.Infeasible {
			t.Skip("no plan")
		}
		l := simulate.Load{Pipeline: problem.Pipeline, Rate: problem.Pipeline.Rate * rapid.Float64Range(0.5, 3).Draw(t, "load")}
		l.Arrivals = arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: rapid.SampledFrom([]float64{0.2, 1, 5}).Draw(t, "shape")}
		o := simulate.Options{Eager: true, Admission: rapid.Bool().Draw(t, "admission"), Duration: 5 * time.Second}
		o.Dropping = rapid.SampledFrom([]simulate.Dropping{"", simulate.DropHopeless, simulate.DropReactive, simulate.DropBySplit}).Draw(t, "rule")
		most, err := boundAttainment(l, p, o)
		require.NoError(t, err)
		r, err := simulate.OnPlans([]simulate.Load{l}, []plan.Plan{p}, o)
		require.NoError(t, err)
		got := r.Pipelines[0].Attainment
		assert.LessOrEqual(t, got, most.Attainment+1e-9)
		if most.Attainment < 0.9 && got > 0.9*most.Attainment {
			tight++
		}
	})
	assert.NotZero(t, tight, "the bound is nowhere near what rules reach")
}

// A twin of small cases: the most requests that a device can do one at a time, of all orders
// of all subsets. The bound is no lower.
func TestBoundAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := relaxed{closes: time.Duration(rapid.IntRange(1, 12).Draw(t, "closes")), each: float64(rapid.IntRange(1, 4).Draw(t, "each"))}
		at := time.Duration(0)
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 5).Draw(t, "gap"))
			m.came = append(m.came, at)
			m.items = append(m.items, rapid.IntRange(0, 3).Draw(t, "items"))
		}
		assert.GreaterOrEqual(t, m.served()+1e-9, float64(bestOrder(&m, 0, 0)), "%+v", m)
	})
}

// bestOrder is the most requests that can be done of those not in done, from then on.
func bestOrder(m *relaxed, now time.Duration, done uint) int {
	best := 0
	for i := range m.came {
		end := now
		if m.items[i] > 0 {
			end = max(now, m.came[i]+m.opens) + time.Duration(m.each)*time.Duration(m.items[i])
		}
		if done&(1<<i) == 0 && (m.items[i] == 0 || end <= m.came[i]+m.closes) {
			best = max(best, 1+bestOrder(m, end, done|1<<i))
		}
	}
	return best
}

// Known cases: a device that does one item in 10 ms, for requests every 5 ms, is bound to
// half of them; where each request has two items of such a module, to a quarter.
func TestBoundKnown(t *testing.T) {
	m := relaxed{closes: 40 * time.Millisecond, each: 10e6}
	for i := range 10_000 {
		m.came, m.items = append(m.came, time.Duration(i)*5*time.Millisecond), append(m.items, 1)
	}
	assert.InDelta(t, 0.5, m.served()/10_000, 0.001)
	for i := range m.items {
		m.items[i] = 2
	}
	assert.InDelta(t, 0.25, m.served()/10_000, 0.001)
}
