package paper

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// Under every policy, reading and way to use a machine: the claimed worst cases
// along every path keep the SLO, the rates are covered, the cost is the sum of
// the groups'. Where policy brute would enumerate for a minute, what it has found by a
// million steps keeps them too.
func TestEveryPolicyKeepsItsOwnRule(t *testing.T) {
	feasible := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawConcurrent(t)
		for _, policy := range names() {
			o := plan.Options{Policy: policy, CostModel: plan.CostProportional, Concurrency: rapid.Bool().Draw(t, "concurrency")}
			if rapid.Bool().Draw(t, "literal") {
				o.Reading = plan.ReadingLiteral
			}
			if check(o) != nil {
				o.Reading = ""
			}
			looks := 0 // brute polls Stop once in 4096 steps
			o.Stop = func() bool { looks++; return policy == plan.PolicyBrute && looks > 250 }
			completed, err := named(policy).Complete(o)
			require.NoError(t, err)
			multiplexes := completed.Concurrency && !completed.Lacks("concurrency")
			p := solve(problem, o)
			if p.Status == plan.Infeasible {
				require.NotEmpty(t, p.Reason)
				continue
			}
			feasible[policy]++
			plantest.CheckPlan(t, problem, plan.Options{}, p)
			for _, m := range p.Modules {
				for _, g := range m.Groups {
					require.True(t, g.Concurrency == 1 || multiplexes)
				}
			}
		}
	})
	for _, policy := range names() {
		assert.NotZero(t, feasible[policy], policy)
	}
}

// drawn is a random tree of modules with affine profiles on two kinds of
// hardware, always the same for a seed.
func drawn(seed uint64, modules, batches int) plan.Problem {
	r := rand.New(rand.NewPCG(seed, 1))
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1 + 3*r.Float64()}, {Name: "b", Price: 1 + 3*r.Float64()}}}
	fastest := 0.0
	for i := range modules {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "in", From: pipelines.Ref{Module: fmt.Sprintf("m%d", r.IntN(i)), Port: "out"}}}
		}
		for k, h := range p.Hardware {
			start, each := 5+45*r.Float64(), 0.5+10*r.Float64()
			for b := range batches {
				d := start + each*float64(int(1)<<b)
				m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: h.Name, Batch: 1 << b, Concurrency: 1, Duration: time.Duration(d * 1e6)})
			}
			if k == 0 {
				fastest += start + each
			}
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	p.Pipeline.Name, p.Pipeline.Rate = "p", 20+980*r.Float64()
	p.Pipeline.SLO = time.Duration(fastest * (1.5 + 4*r.Float64()) * 1e6)
	return p
}

// What the split by throughput leaves of the objective may be too little for the
// rest of a module that has no dummy requests; going back finds a plan.
func TestRetreatingFindsPlans(t *testing.T) {
	mended, short := 0, 0
	for seed := range uint64(40) {
		problem := drawn(seed, 3, 6)
		p := searching(t, &problem, plan.Options{Policy: plan.PolicyScrooge, CostModel: plan.CostProportional})
		first, ok := p.start()
		if !ok {
			continue
		}
		path := p.descend(first, p.units(false), byThroughput)
		last := path[len(path)-1]
		if _, err := p.schedule(last.worst); err == nil {
			continue
		}
		short++
		if budgets, ok := p.retreat(path, p.solve); ok {
			require.LessOrEqual(t, p.DAG.Longest(budgets), problem.Pipeline.SLO)
			mended++
		}
	}
	t.Logf("%d of %d splits that could not be scheduled were mended", mended, short)
	assert.Greater(t, mended, short/2)
}

// BenchmarkPolicies plans five modules on two kinds of hardware with five batch
// sizes under every policy.
func BenchmarkPolicies(b *testing.B) {
	for _, policy := range names() {
		b.Run(policy, func(b *testing.B) {
			b.ReportAllocs()
			seed := uint64(0)
			for b.Loop() {
				solve(drawn(seed%50, 5, 5), plan.Options{Policy: policy, CostModel: plan.CostProportional})
				seed++
			}
		})
	}
}
