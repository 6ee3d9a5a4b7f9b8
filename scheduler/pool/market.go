package pool

import (
	"cmp"
	"fmt"
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

// newMarket prepares the problem; it is an error that is in the way of any
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

// maxConfigurations bounds a list of configurations.
const maxConfigurations = 1_000_000

// priceTolerance lets a configuration cost the budget to the cent although its
// sum was rounded.
const priceTolerance = 1e-9

// configuration is a number of instances of each kind.
type configuration struct {
	counts []int
	rate   float64 // what it is ranked by
}

// configurations lists everything that the budget pays for, with at least one
// base instance.
func (m *market) configurations() ([]configuration, error) {
	var all []configuration
	counts := make([]int, len(m.kinds))
	var fill func(k int, left float64) error
	fill = func(k int, left float64) error {
		if k == len(m.kinds) {
			if len(all) == maxConfigurations {
				return fmt.Errorf("the budget pays for more than %d configurations: bound the kinds of hardware with count, or name fewer of them", maxConfigurations)
			}
			all = append(all, configuration{counts: slices.Clone(counts)})
			return nil
		}
		least := 0
		if k == m.base {
			least = 1
		}
		for n := least; n <= m.affordable(k, left); n++ {
			counts[k] = n
			if err := fill(k+1, left-float64(n)*m.kinds[k].price); err != nil {
				return err
			}
		}
		counts[k] = 0
		return nil
	}
	return all, fill(0, m.budget)
}

// affordable is how many instances of the kind the money pays for.
func (m *market) affordable(k int, money float64) int {
	n := int(money*(1+priceTolerance)/m.kinds[k].price + priceTolerance)
	if most := m.kinds[k].most; most > 0 {
		n = min(n, most)
	}
	return max(0, n)
}

// rank orders configurations by falling rate; of equal ones, the cheaper first.
func (m *market) rank(all []configuration) {
	slices.SortStableFunc(all, func(a, b configuration) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(m.cost(a.counts), m.cost(b.counts)))
	})
}

// Numbers of the paper's choice rule.
const (
	agreeing   = 3  // configurations at the top that must agree on the base count
	considered = 10 // configurations to take the middle of otherwise
)

// choose applies the paper's rule to ranked configurations (section 5.2): where
// the first three have the same number of base instances, the first of all;
// otherwise, of the first ten, the one with the least sum of squared distances
// to the others, in plain instance counts.
func choose(ranked []configuration, base int) configuration {
	top := ranked[:min(agreeing, len(ranked))]
	if !slices.ContainsFunc(top, func(c configuration) bool { return c.counts[base] != top[0].counts[base] }) {
		return top[0]
	}
	top = ranked[:min(considered, len(ranked))]
	best, least := 0, -1
	for i, c := range top {
		sum := 0
		for _, other := range top {
			for g := range c.counts {
				off := c.counts[g] - other.counts[g]
				sum += off * off
			}
		}
		if least < 0 || sum < least {
			best, least = i, sum
		}
	}
	return top[best]
}

// rates are the throughputs that the paper's estimate of a configuration is
// made of (table of section 5.2), in queries per second.
type rates struct {
	Base      float64   // Q_b: one base instance that serves all sizes
	Large     float64   // Q_b^{s+}: one base instance that serves only what the others cannot
	Auxiliary []float64 // Q_a^i: one instance of each auxiliary type, for the sizes below s'
	Share     float64   // f': queries of the sizes below s', which the strongest auxiliary type serves
}

// Estimate is the throughput of base instances and auxiliary instances
// together, by Eq. 14 and 15:
//
//	C = (1-f')/f' · sum of v_i·Q_a^i
//	QPSmax = u·Q_b^{s+} / (1-f')                                         if u·Q_b^{s+} <= C
//	QPSmax = sum of v_i·Q_a^i / f'  +  (1 - C/(u·Q_b^{s+})) · u·Q_b      otherwise
//
// Without auxiliary instances it is u·Q_b. Where the auxiliary types serve all
// sizes, no query needs the base, and both add up.
func (r rates) Estimate(base int, auxiliary []int) float64 {
	u, sum := float64(base), 0.0
	for i, v := range auxiliary {
		sum += float64(v) * r.Auxiliary[i]
	}
	switch {
	case sum == 0 || r.Share <= 0:
		return u * r.Base
	case r.Share >= 1:
		return sum + u*r.Base
	}
	offloaded := sum * (1 - r.Share) / r.Share
	if large := u * r.Large; large > offloaded {
		return sum/r.Share + (large-offloaded)/large*u*r.Base
	}
	return u * r.Large / (1 - r.Share)
}

// estimate is the paper's estimate of a configuration of the market. The
// auxiliary type that serves the largest sizes sets s' and f'; all others are
// taken to serve as much.
func (m *market) estimate(counts []int) float64 {
	reach := 0
	for g, n := range counts {
		if n > 0 && g != m.base {
			reach = max(reach, m.kinds[g].serves)
		}
	}
	all := len(m.sizes)
	r := rates{Base: m.throughput(m.base, 0, all), Large: m.throughput(m.base, reach, all), Share: m.share(reach)}
	if reach == all {
		r.Share = 1
	}
	var auxiliary []int
	for g, n := range counts {
		if g != m.base {
			auxiliary = append(auxiliary, n)
			r.Auxiliary = append(r.Auxiliary, m.throughput(g, 0, max(reach, 1)))
		}
	}
	if reach == 0 {
		r.Share = 0 // no auxiliary instance serves anything
	}
	return r.Estimate(counts[m.base], auxiliary)
}
