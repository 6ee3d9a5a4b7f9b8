package experiments

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// The size of what Growth makes besides its modules.
const (
	growthHardware = 10
	growthBatches  = 16
	growthRate     = 300.0
	growthSLO      = 8.0 // times the fastest path
	growthWidth    = 3   // modules side by side, at most
)

// Sizes lists the numbers of modules of a growth curve.
func Sizes() []int { return []int{1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 200} }

// Growth draws a large problem: a DAG of so many modules in layers of one to
// three, each module fed by one or two of the layer above, ten kinds of
// drawnHardware and sixteen batch sizes.
func Growth(seed uint64, modules int) plan.Problem {
	d := drawer{rand.New(rand.NewPCG(seed, uint64(modules))), wide()}
	devices := d.kinds(growthHardware, 3, 1.1, func() float64 { return d.between(0.7, 0.95) })
	var batches []int
	for b := range growthBatches {
		batches = append(batches, 1+2*b)
	}
	pipe := pipelines.Pipeline{Name: fmt.Sprintf("growth-%d", modules), Rate: growthRate}
	var above, layer []string
	width := 1
	for i := range modules {
		m := pipelines.Module{Name: fmt.Sprintf("m%03d", i), Fanout: 1, Inputs: d.feed(above)}
		m.Profile = pipelines.Profile{Points: d.points(d.family(), devices, batches)}
		pipe.Modules = append(pipe.Modules, m)
		if layer = append(layer, m.Name); len(layer) >= width {
			above, layer, width = layer, nil, 1+d.IntN(growthWidth)
		}
	}
	p := plan.Problem{Hardware: drawnHardware(devices), Pipeline: pipe}
	_, fastest, _ := pipe.FastestPath(p.Hardware) // layers make no cycle
	p.Pipeline.SLO = time.Duration(float64(fastest) * growthSLO)
	return p
}

// feed draws one or two different modules of the layer above.
func (d drawer) feed(above []string) []pipelines.Binding {
	var list []pipelines.Binding
	for i, k := range d.Perm(len(above)) {
		if i > d.IntN(2) {
			break
		}
		list = append(list, pipelines.Binding{Name: fmt.Sprintf("in%d", i), From: pipelines.Ref{Module: above[k], Port: "out"}})
	}
	return list
}

// GrowthPoint is how long a variant needed for one size.
type GrowthPoint struct {
	Modules int
	Status  plan.Status
	Cost    float64
	Bound   float64
	Solve   float64
}

// Grow plans a growth problem.
func (v Variant) Grow(p plan.Problem, clock func() time.Duration, limit time.Duration) GrowthPoint {
	o := v.Options
	o.Clock, o.TimeLimit = clock, limit
	found := policies.Solve(p, o)
	return GrowthPoint{
		Modules: len(p.Pipeline.Modules), Status: found.Status,
		Cost: found.Cost, Bound: found.LowerBound, Solve: quantity.Millis(found.SolveTime),
	}
}
