package pipelines

import (
	"math"
	"slices"
)

// What a pool is called where it is served as a pipeline.
const (
	PoolModule = "query"
	PoolInput  = "items"  // of an emulated pool: FP32, [size, 1]
	PoolOutput = "scores" // of an emulated pool: [size, ...]
)

const (
	dispatchMatching = "matching"
	engineEmulated   = "emulated"

	// mostMeasured bounds the sizes at which a pool is measured; between them a
	// straight line counts (Latency).
	mostMeasured = 16
)

// defaultSizes are measured where no sizes are declared.
func defaultSizes() []int { return []int{1, 4, 16, 64, 256} }

// Emulated says whether the pool has no network and is served by its profile alone.
func (p *Pool) Emulated() bool { return p.Network.Model == "" && len(p.Network.Command) == 0 }

// Served is the pool as gateway and executors see it: a pipeline of one module,
// PoolModule, that runs a query as one batch of its items. Its ports are those of
// the pool, whose first dimension is the size of the query; those of an emulated
// pool without any are PoolInput and PoolOutput.
func (p *Pool) Served() Pipeline {
	out := Pipeline{Name: p.Name, SLO: p.SLO, Arrivals: p.Arrivals, Dispatch: dispatchMatching, Inputs: p.Inputs, Outputs: slices.Clone(p.Outputs)}
	m := p.Network
	m.Name, m.Sized, m.Fanout, m.Hardware = PoolModule, true, 1, p.Hardware
	m.Profile, m.ProfileFile = p.Profile, p.ProfileFile
	if p.Emulated() {
		m.Engine = engineEmulated
	} else if len(m.Batches) == 0 {
		m.Batches = p.MeasuredSizes()
	}
	if len(out.Inputs) == 0 {
		out.Inputs = []Port{{Name: PoolInput, Datatype: "FP32", Shape: []int64{-1, 1}}}
	}
	if len(out.Outputs) == 0 {
		out.Outputs = []Output{{Name: PoolOutput, From: Ref{Port: PoolOutput}}}
	}
	m.Inputs = nil
	for _, in := range out.Inputs {
		m.Inputs = append(m.Inputs, Binding{Name: in.Name, From: Ref{Port: in.Name}})
	}
	for i := range out.Outputs {
		out.Outputs[i].From.Module = PoolModule
	}
	out.Modules = []Module{m}
	return out
}

// MeasuredSizes are the sizes at which a pool without a profile is measured: those
// of its mix, or of many some, the smallest and the largest among them, between
// which as many queries lie.
func (p *Pool) MeasuredSizes() []int {
	var all []int
	for _, s := range p.Sizes {
		if s.Weight > 0 {
			all = append(all, s.Size)
		}
	}
	switch {
	case len(all) == 0:
		return defaultSizes()
	case len(all) <= mostMeasured:
		return all
	}
	var some []int
	for i := range mostMeasured {
		at := float64(i) * float64(len(all)-1) / (mostMeasured - 1)
		some = append(some, all[int(math.Round(at))])
	}
	return some
}
