package pipelines

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Pool is a set of instances of several kinds that serve queries of different
// sizes to one model: how many of each kind the budget is best spent on is for
// a plan to say (Kairos, sections 4 and 5).
type Pool struct {
	Name     string
	SLO      time.Duration // counted from a query's arrival
	Budget   float64       // money per hour
	Arrivals string        // "even", "poisson", "gamma:SHAPE"; empty means even
	Base     string        // kind of hardware that meets the SLO at every size
	Hardware []string      // kinds that may be in the pool; empty means all that the profile has points on
	Plan     Planning      `json:",omitzero"`

	// Network is what answers queries: its Model, Engine, Command, Files, BatchAxis
	// and Content count. The zero Module stands for a pool that is emulated by its
	// profile.
	Network Module   `json:",omitzero"`
	Inputs  []Port   `json:",omitempty"` // tensors of a query, their first dimension, -1, its size
	Outputs []Output `json:",omitempty"` // From.Port is the network's output

	// Overhead is what a query takes besides what its profile says: the way to the
	// instance and back, and the dispatcher. 0 where the profile has it, as one that
	// is measured for the pool does.
	Overhead time.Duration `json:",omitempty"`

	Matching Matching `json:",omitzero"` // how queries are distributed

	// Learned means that nothing is measured before the pool serves: what queries take is
	// learned from them.
	Learned bool `json:",omitempty"`

	ProfileFile string // path as declared
	Profile     Profile
	SizesFile   string // path as declared
	Sizes       Mix    // empty where nothing is known of them; see Mix
}

// Matching states how queries and instances are paired. The zero value is the
// default.
type Matching struct {
	// Coefficients weigh the seconds of an instance: CoefficientsPlan (the default)
	// takes the prices that the plan's bound has, CoefficientsPaper the latency of
	// the largest query on the base over that on the kind (Kairos, section 5.1).
	Coefficients string `json:",omitempty"`

	// Width is how many waiting queries a decision looks at for each instance; 0 is
	// the default, WidthAll looks at all.
	Width int `json:",omitempty"`
}

// Values of Matching.
const (
	CoefficientsPlan  = "plan"
	CoefficientsPaper = "paper"

	WidthAll = -1 // width = "all" in HCL
)

// Taken is how long queries of that kind of hardware are planned to take: the
// profile, with the noise that was measured with it (one query in 20 takes
// Spread longer), and the pool's overhead.
func (p *Pool) Taken(hardware string) Latency {
	l := slices.Clone(p.Profile.Latency(hardware))
	for i := range l {
		l[i].Duration += l[i].Spread + p.Overhead
	}
	return l
}

// Mix is how often queries are taken to have which size: as declared, or,
// where nothing is known yet, each size that was measured on the base and is in
// time there as often as the others.
func (p *Pool) Mix() Mix {
	if len(p.Sizes) > 0 {
		return p.Sizes
	}
	var m Mix
	for _, at := range p.Taken(p.Base) {
		if at.Duration <= p.SLO {
			m = append(m, Size{Size: at.Batch, Weight: 1})
		}
	}
	return m
}

// Size is one size of a query with its weight in a Mix.
type Size struct {
	Size   int     // items of a query, the batch of a Point
	Weight float64 // relative to the other sizes, not below zero
}

// Mix is how often queries have which size, in rising order of size.
type Mix []Size

// Total is the sum of the weights.
func (m Mix) Total() float64 {
	total := 0.0
	for _, s := range m {
		total += s.Weight
	}
	return total
}

// Mean is the mean size of a query; 0 for an empty mix.
func (m Mix) Mean() float64 {
	sum := 0.0
	for _, s := range m {
		sum += float64(s.Size) * s.Weight
	}
	if sum == 0 {
		return 0
	}
	return sum / m.Total()
}

// Largest is the largest size that occurs; 0 for an empty mix.
func (m Mix) Largest() int {
	largest := 0
	for _, s := range m {
		if s.Weight > 0 {
			largest = max(largest, s.Size)
		}
	}
	return largest
}

// Latency is how long one query takes on one kind of hardware, by its size.
// Between two measured sizes it is read off the line through them, below the
// first the first counts, and beyond the last the line through the last two
// goes on, where it rises.
type Latency []Point

// Latency of the hardware, one query at a time: the points with concurrency 1
// in rising order of batch.
func (p Profile) Latency(hardware string) Latency {
	var l Latency
	for _, at := range p.Points {
		if at.Hardware == hardware && at.Concurrency <= 1 {
			l = append(l, at)
		}
	}
	slices.SortStableFunc(l, func(a, b Point) int { return cmp.Compare(a.Batch, b.Batch) })
	return l
}

// Largest is the largest measured size; 0 where nothing was measured.
func (l Latency) Largest() int {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].Batch
}

// At is the latency of a query of that size; 0 where nothing was measured.
func (l Latency) At(size int) time.Duration {
	i, found := slices.BinarySearchFunc(l, size, func(at Point, size int) int { return cmp.Compare(at.Batch, size) })
	switch {
	case len(l) == 0:
		return 0
	case found || i == 0:
		return l[i].Duration
	case i == len(l):
		if i == 1 || l[i-1].Duration < l[i-2].Duration {
			return l[i-1].Duration
		}
		i--
	}
	low, high := l[i-1], l[i]
	share := float64(size-low.Batch) / float64(high.Batch-low.Batch)
	return low.Duration + time.Duration(share*float64(high.Duration-low.Duration))
}

// Violates is the smallest size of the mix that takes longer than the
// objective; false where all meet it. The kind of hardware serves the sizes
// below.
func (l Latency) Violates(m Mix, slo time.Duration) (int, bool) {
	for _, s := range m {
		if s.Weight > 0 && l.At(s.Size) > slo {
			return s.Size, true
		}
	}
	return 0, false
}

// Kinds are the kinds of hardware that may be in the pool: those it names, or
// else the declared ones that its profile has points on, in the order declared.
func (p *Pool) Kinds(hardware []Hardware) []string {
	if len(p.Hardware) > 0 {
		return p.Hardware
	}
	var names []string
	for _, h := range hardware {
		if len(p.Profile.Latency(h.Name)) > 0 || p.Unmeasured() {
			names = append(names, h.Name)
		}
	}
	return names
}

// Unmeasured reports that nothing is known yet of how long queries take, and that it
// can be measured.
func (p *Pool) Unmeasured() bool {
	return len(p.Profile.Points) == 0 && p.ProfileFile == "" && !p.Emulated()
}

// Learns reports that nothing is known yet and queries are to tell.
func (p *Pool) Learns() bool { return p.Learned && p.Unmeasured() }

// CSV writes the mix as a file of sizes.
func (m Mix) CSV() []byte {
	var b bytes.Buffer
	b.WriteString("size,weight\n")
	for _, s := range m {
		fmt.Fprintf(&b, "%d,%s\n", s.Size, strconv.FormatFloat(s.Weight, 'g', -1, 64))
	}
	return b.Bytes()
}

// MaxWeight bounds a weight, so that sums of weights stay finite.
const MaxWeight = 1e15

// What a pool is called where it is served as a pipeline.
const (
	PoolModule = "query"
	PoolInput  = "items"  // of an emulated pool: FP32, [size, 1]
	PoolOutput = "scores" // of an emulated pool: [size, ...]
)

const (
	// mostMeasured bounds the sizes at which a pool is measured; between them a
	// straight line counts (Latency).
	mostMeasured = 16
)

// defaultSizes are measured where no sizes are declared.
func defaultSizes() []int { return []int{1, 4, 16, 64, 256} }

// Emulated reports whether the pool has no network and is served by its profile alone.
func (p *Pool) Emulated() bool { return p.Network.Model == "" && len(p.Network.Command) == 0 }

// Served is the pool as gateway and executors see it: a pipeline of one module,
// PoolModule, that runs a query as one batch of its items. Its ports are those of
// the pool, whose first dimension is the size of the query; those of an emulated
// pool without any are PoolInput and PoolOutput.
func (p *Pool) Served() Pipeline {
	out := Pipeline{Name: p.Name, SLO: p.SLO, Arrivals: p.Arrivals, Dispatch: Dispatches(KindPool)[0], Inputs: p.Inputs, Outputs: slices.Clone(p.Outputs)}
	m := p.Network
	m.Name, m.Sized, m.Fanout, m.Hardware = PoolModule, true, 1, p.Hardware
	m.Profile, m.ProfileFile = p.Profile, p.ProfileFile
	if p.Emulated() {
		m.Engine = EngineEmulated
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
