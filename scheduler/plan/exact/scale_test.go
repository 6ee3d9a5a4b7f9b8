package exact

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// large is a pipeline of n modules on ten kinds of hardware with sixteen batch
// sizes each: a chain, or layers of four modules that each read two of the
// layer above.
func large(n int, layered bool) plan.Problem {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	p := plan.Problem{Pipeline: pipelines.Pipeline{Name: "large", Rate: 200}}
	for k := range 10 {
		p.Hardware = append(p.Hardware, pipelines.Hardware{Name: fmt.Sprintf("h%d", k), Price: 0.5 + 0.4*float64(k)})
	}
	for i := range n {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		above := []int{i - 1}
		if layered {
			above = []int{i/4*4 - 4 + i%4, i/4*4 - 4 + (i+1)%4}
		}
		for _, j := range above {
			if j >= 0 {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("i%d", j), From: pipelines.Ref{Module: fmt.Sprintf("m%d", j), Port: "out"}})
			}
		}
		fixed, each := 2+8*r.Float64(), 0.2+2*r.Float64()
		for k, h := range p.Hardware {
			speed := (0.5 + 0.4*float64(k)) * (0.8 + 0.4*r.Float64())
			for b := 1; b <= 16; b++ {
				d := time.Duration((fixed + each*float64(b)) / speed * 1e6)
				m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: h.Name, Batch: b, Concurrency: 1, Duration: d})
			}
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	depth := n
	if layered {
		depth = (n + 3) / 4
	}
	p.Pipeline.SLO = time.Duration(depth) * 20 * time.Millisecond
	return p
}

func TestLargePipelinesAreProvenToo(t *testing.T) {
	o := plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional}
	require.Equal(t, plan.Optimal, solve(large(30, false), o).Status, "a chain")
	require.Equal(t, plan.Optimal, solve(large(12, true), o).Status, "three layers")
	dense := solve(large(24, true), o)
	require.Less(t, dense.Cost-dense.LowerBound, 0.02*dense.Cost, "six layers, with bounded effort")
}

func BenchmarkExactLarge(b *testing.B) {
	for _, layered := range []bool{false, true} {
		for _, n := range []int{10, 50, 100, 200} {
			p := large(n, layered)
			b.Run(fmt.Sprintf("layered=%v/modules=%d", layered, n), func(b *testing.B) {
				gap := 0.0
				for b.Loop() {
					out := solve(p, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
					gap = (out.Cost - out.LowerBound) / out.Cost
				}
				b.ReportMetric(gap, "gap")
			})
		}
	}
}
