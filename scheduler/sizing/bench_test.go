package sizing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// drawn is a pipeline of so many modules, to which requests come at random.
func drawn(seed uint64, modules int) plan.Problem {
	r := rand.New(rand.NewPCG(seed, uint64(modules)))
	between := func(a, b float64) float64 { return a * math.Pow(b/a, r.Float64()) }
	p := pipelines.Pipeline{Name: "drawn", Rate: between(5, 400), SLO: time.Duration(float64(modules) * between(60, 300) * 1e6), Arrivals: pipelines.ArrivalsPoisson, Attainment: 0.99}
	for i := range modules {
		m := pipelines.Module{Name: string(rune('a' + i)), Fanout: 1}
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: string(rune('a' + r.IntN(i))), Port: "y"}}}
			if r.IntN(4) == 0 {
				m.Scatter, m.Fanout = true, between(1.2, 5)
			}
		}
		fixed, each, slower := between(2, 20), between(0.3, 4), between(2, 4)
		for b := 1; b <= 16; b *= 2 {
			d := (fixed + each*float64(b)) * 1e6
			m.Profile.Points = append(m.Profile.Points,
				pipelines.Point{Hardware: "large", Batch: b, Concurrency: 1, Duration: time.Duration(d)},
				pipelines.Point{Hardware: "small", Batch: b, Concurrency: 1, Duration: time.Duration(d * slower)})
		}
		p.Modules = append(p.Modules, m)
	}
	return plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "large", Price: 2.5}, {Name: "small", Price: 1}}}
}

// BenchmarkSolve plans for random arrivals: the pipelines of the library, and drawn ones of one
// to five modules, ten of each.
func BenchmarkSolve(b *testing.B) {
	all, err := library.Document()
	require.NoError(b, err)
	for _, model := range []string{plan.CostWhole, plan.CostShared} {
		for _, p := range all.Pipelines {
			p.Arrivals, p.Attainment = pipelines.ArrivalsPoisson, 0.99
			b.Run(model+"/"+p.Name, func(b *testing.B) { timed(b, model, plan.Problem{Pipeline: p, Hardware: all.Hardware}) })
		}
		for modules := 1; modules <= 5; modules++ {
			var some []plan.Problem
			for seed := range uint64(10) {
				some = append(some, drawn(seed, modules))
			}
			b.Run(fmt.Sprint(model, "/drawn-", modules), func(b *testing.B) { timed(b, model, some...) })
		}
	}
}

func timed(b *testing.B, model string, some ...plan.Problem) {
	cost, longest, planned := 0.0, time.Duration(0), 0
	for range b.N {
		cost, planned = 0, 0
		for _, p := range some {
			begin := time.Now()
			if got := Solve(p, Options{Options: plan.Options{CostModel: model}}); got.Status != plan.Infeasible {
				cost, planned = cost+got.Cost, planned+1
			}
			longest = max(longest, time.Since(begin))
		}
	}
	b.ReportMetric(cost, "cost")
	b.ReportMetric(float64(planned), "planned")
	b.ReportMetric(longest.Seconds(), "longest-s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*len(some)), "s/plan")
}
