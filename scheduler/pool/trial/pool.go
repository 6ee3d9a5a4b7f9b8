package trial

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/baseline"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// Type is one kind of instance.
type Type struct {
	Name    string
	Latency pipelines.Latency
}

// Pool is what queries are played against.
type Pool struct {
	Types  []Type
	Base   int   // place in Types of the kind that meets the SLO at every size
	Counts []int // instances by type
	SLO    time.Duration

	// Noise is the standard deviation of the latency of a query relative to
	// its mean; 0 for none.
	Noise float64
}

// Instances is how many there are of all types.
func (p Pool) Instances() int {
	n := 0
	for _, c := range p.Counts {
		n += c
	}
	return n
}

// Baseline are the options of one of the distributors of package baseline that knows the pool's
// latencies. The threshold is that of drs.
func (p Pool) Baseline(name string, largest, threshold int) baseline.Options {
	o := baseline.Options{Name: name, Base: int32(p.Base), SLO: p.SLO, Largest: int32(largest), Threshold: int32(threshold)}
	for _, t := range p.Types {
		o.Types = append(o.Types, matching.InstanceType(t))
	}
	return o
}

// Ribbon distributes as Ribbon does, queries up to a largest size.
func (p Pool) Ribbon(largest int) dispatch.Policy {
	return baseline.New(p.Baseline(baseline.Ribbon, largest, 0))
}

// Clockwork distributes after Clockwork.
func (p Pool) Clockwork(largest int) dispatch.Policy {
	return baseline.New(p.Baseline(baseline.Clockwork, largest, 0))
}

// Threshold distributes after DeepRecSys.
func (p Pool) Threshold(largest, threshold int) dispatch.Policy {
	return baseline.New(p.Baseline(baseline.Threshold, largest, threshold))
}

// table is the latency of each size on each type, up to a largest size.
func (p Pool) table(largest int32) [][]time.Duration {
	all := make([][]time.Duration, len(p.Types))
	for g, t := range p.Types {
		all[g] = make([]time.Duration, largest+1)
		for size := range all[g] {
			all[g][size] = t.Latency.At(size)
		}
	}
	return all
}
