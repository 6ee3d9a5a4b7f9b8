package trial

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
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
