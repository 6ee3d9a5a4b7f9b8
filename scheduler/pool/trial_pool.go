package pool

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// TrialType is one kind of instance.
type TrialType struct {
	Name    string
	Latency pipelines.Latency
}

// TrialPool is what queries are played against.
type TrialPool struct {
	Types  []TrialType
	Base   int   // place in Types of the kind that meets the SLO at every size
	Counts []int // instances by type
	SLO    time.Duration

	// Noise is the standard deviation of the latency of a query relative to
	// its mean; 0 for none.
	Noise float64
}

// Instances is how many there are of all types.
func (p TrialPool) Instances() int {
	n := 0
	for _, c := range p.Counts {
		n += c
	}
	return n
}

// Baseline are the options of one of the baselines that knows the pool's
// latencies. The threshold is that of drs.
func (p TrialPool) Baseline(name string, largest, threshold int) matching.BaselineOptions {
	o := matching.BaselineOptions{Name: name, Base: int32(p.Base), SLO: p.SLO, Largest: int32(largest), Threshold: int32(threshold)}
	for _, t := range p.Types {
		o.Types = append(o.Types, matching.InstanceType(t))
	}
	return o
}

// Ribbon distributes as Ribbon does, queries up to a largest size.
func (p TrialPool) Ribbon(largest int) dispatch.Policy {
	return matching.NewBaseline(p.Baseline(matching.Ribbon, largest, 0))
}

// Clockwork distributes after Clockwork.
func (p TrialPool) Clockwork(largest int) dispatch.Policy {
	return matching.NewBaseline(p.Baseline(matching.Clockwork, largest, 0))
}

// Threshold distributes after DeepRecSys.
func (p TrialPool) Threshold(largest, threshold int) dispatch.Policy {
	return matching.NewBaseline(p.Baseline(matching.Threshold, largest, threshold))
}

// table is the latency of each size on each type, up to a largest size.
func (p TrialPool) table(largest int32) [][]time.Duration {
	all := make([][]time.Duration, len(p.Types))
	for g, t := range p.Types {
		all[g] = make([]time.Duration, largest+1)
		for size := range all[g] {
			all[g][size] = t.Latency.At(size)
		}
	}
	return all
}
