package pool

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// kind is one type of instance with what a plan needs to know of it.
type kind struct {
	name    string
	price   float64 // money per hour
	most    int     // instances that exist; 0 without limit
	latency pipelines.Latency
	seconds []float64 // by place in the mix
	serves  int       // places below the first size that violates the objective
}

// market is a problem in the form that all policies work on.
type market struct {
	slo    time.Duration
	budget float64
	base   int // place in kinds
	kinds  []kind
	sizes  []int
	weight []float64 // of each size, adding up to one
	how    pipelines.Matching
}

// newMarket prepares the problem; it is an error that stands in the way of any
// plan.
func newMarket(p Problem) (*market, error) {
	m := &market{slo: p.Pool.SLO, budget: p.Pool.Budget, base: -1, how: p.Pool.Matching}
	mix := p.Pool.Mix()
	total := mix.Total()
	for _, s := range mix {
		if s.Weight > 0 {
			m.sizes = append(m.sizes, s.Size)
			m.weight = append(m.weight, s.Weight/total)
		}
	}
	for _, name := range p.Pool.Kinds(p.Hardware) {
		at := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == name })
		if at < 0 {
			continue
		}
		k := m.kind(name, p.Hardware[at], p.Pool.Taken(name))
		if name == p.Pool.Base {
			m.base = len(m.kinds)
		}
		m.kinds = append(m.kinds, k)
	}
	return m, m.check(p.Pool)
}

func (m *market) kind(name string, h pipelines.Hardware, latency pipelines.Latency) kind {
	k := kind{name: name, price: h.Price, most: h.Count, latency: latency, serves: len(m.sizes)}
	for i, size := range m.sizes {
		d := latency.At(size)
		k.seconds = append(k.seconds, d.Seconds())
		if d > m.slo && k.serves == len(m.sizes) {
			k.serves = i
		}
	}
	return k
}

// trial is the pool with that many instances of each kind, to be simulated.
func (m *market) trial(counts []int) TrialPool {
	p := TrialPool{Base: m.base, Counts: counts, SLO: m.slo}
	for _, k := range m.kinds {
		p.Types = append(p.Types, TrialType{Name: k.name, Latency: k.latency})
	}
	return p
}

func (m *market) cost(counts []int) float64 {
	cost := 0.0
	for g, n := range counts {
		cost += float64(n) * m.kinds[g].price
	}
	return cost
}

// share is the share of queries among the first n sizes.
func (m *market) share(n int) float64 {
	sum := 0.0
	for _, w := range m.weight[:n] {
		sum += w
	}
	return sum
}

// throughput is the queries per second of one instance that serves the sizes
// from low up to, but not including, high, one after the other.
func (m *market) throughput(k, low, high int) float64 {
	share, time := 0.0, 0.0
	for i := low; i < high; i++ {
		share += m.weight[i]
		time += m.weight[i] * m.kinds[k].seconds[i]
	}
	if time == 0 {
		return math.Inf(1)
	}
	return share / time
}
