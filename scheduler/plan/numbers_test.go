package plan_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// everyPolicy is each policy under each cost model that it has.
func everyPolicy() []plan.Options {
	var list []plan.Options
	for _, policy := range policies.Names() {
		for _, model := range plan.CostModels() {
			if o := (plan.Options{Policy: policy, CostModel: model}); policies.Check(o) == nil {
				list = append(list, o)
			}
		}
	}
	return list
}

// A rate of zero costs nothing and needs no machines, whatever the policy.
func TestRateZeroUnderEveryPolicy(t *testing.T) {
	for _, o := range everyPolicy() {
		p := plantest.Traffic()
		p.Pipeline.Rate = 0
		out := policies.Solve(p, o)
		require.NotEqual(t, plan.Infeasible, out.Status, "%s %s: %s", o.Policy, o.CostModel, out.Reason)
		assert.Zero(t, out.Cost)
		for _, m := range out.Modules {
			assert.Empty(t, m.Groups)
		}
	}
}

// Numbers that are none are errors before planning starts: each policy gives
// the same reason.
func TestBadNumbersUnderEveryPolicy(t *testing.T) {
	bad := map[string]func(*plan.Problem, float64){
		"rate":        func(p *plan.Problem, x float64) { p.Pipeline.Rate = x },
		"module rate": func(p *plan.Problem, x float64) { p.Pipeline.Modules[1].Rate = x },
		"fanout":      func(p *plan.Problem, x float64) { p.Pipeline.Modules[1].Fanout = x },
		"price":       func(p *plan.Problem, x float64) { p.Hardware[0].Price = x },
	}
	for _, o := range everyPolicy() {
		for name, set := range bad {
			for _, x := range []float64{math.NaN(), -1, math.Inf(1), math.Inf(-1)} {
				p := plantest.Traffic()
				set(&p, x)
				want := p.Check()
				require.Error(t, want, "%s %v", name, x)
				out := policies.Solve(p, o)
				assert.Equal(t, plan.Infeasible, out.Status)
				assert.Equal(t, want.Error(), out.Reason, "%s %s", o.Policy, o.CostModel)
				_, err := policies.SplitLatency(p, o)
				assert.Equal(t, want, err)
				_, err = policies.ScheduleModules(p, o, plan.Budgets{})
				assert.Equal(t, want, err)
			}
		}
	}
}

// FuzzNumbers plans with any numbers under every policy: no panic, no NaN, and
// what Check refuses is refused.
func FuzzNumbers(f *testing.F) {
	f.Add(100.0, 1.8, 0.0, 3.06, int64(400e6), int64(20e6), 8, 1, 0, uint8(0))
	f.Add(math.NaN(), math.Inf(1), -1.0, 0.0, int64(0), int64(-1), 0, -1, -1, uint8(1))
	f.Add(1e300, 1e300, 1e300, 1e300, int64(math.MaxInt64), int64(1), math.MaxInt32, 1000, 1, uint8(2))
	f.Add(1e-300, 1e-300, 1e-300, 1e-300, int64(1), int64(math.MaxInt64), 1, 1, math.MaxInt32, uint8(3))
	f.Add(1e12, 1.0, 0.0, 0.0, int64(1e9), int64(1e6), 32, 4, 0, uint8(9))
	f.Add(0.0, 0.0, 0.0, 1.0, int64(1e9), int64(1e9), 1, 0, 3, uint8(12))
	all := everyPolicy()
	f.Fuzz(func(t *testing.T, rate, fanout, own, price float64, slo, duration int64, batch, concurrency, count int, which uint8) {
		defer testkit.WatchStalls(t, 0)()
		p := plantest.Traffic()
		p.Pipeline.Rate, p.Pipeline.SLO = rate, time.Duration(slo)
		p.Pipeline.Modules[1].Fanout, p.Pipeline.Modules[2].Rate = fanout, own
		p.Hardware[0].Price, p.Hardware[0].Count = price, count
		p.Pipeline.Modules[0].Profile.Points[1] = pipelines.Point{Hardware: "v100", Batch: batch, Concurrency: concurrency, Duration: time.Duration(duration)}
		o := all[int(which)%len(all)]
		o.Concurrency = which >= 128
		start := time.Now()
		o.Clock = func() time.Duration { return time.Since(start) }
		o.TimeLimit = 100 * time.Millisecond
		out := policies.Solve(p, o)
		if err := p.Check(); err != nil {
			require.Equal(t, plan.Infeasible, out.Status)
			require.Equal(t, err.Error(), out.Reason)
		}
		require.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0), "cost %v", out.Cost)
		require.LessOrEqual(t, out.Latency, max(p.Pipeline.SLO, 0))
		_, err := json.Marshal(out)
		require.NoError(t, err)
		_ = out.Describe()
	})
}
