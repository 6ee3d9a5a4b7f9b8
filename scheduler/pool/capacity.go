package pool

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// How the prices of a bound are looked for. More steps make it tighter, never
// wrong.
const (
	priceSteps  = 400
	priceStride = 0.5 // of the first step, in logarithms of prices
)

// capacity bounds the goodput of a pool whatever distributes the queries.
//
// Claim. Let n_j be the instances of type j, w_k the share of queries of size
// k, l_kj > 0 the time that one takes on type j, and a the share that must
// finish within the objective. For any prices q_j >= 0 with sum q_j = 1, where
// q_j > 0 for each j with n_j > 0, let
//
//	c_k = min over the types j with n_j > 0 on which size k meets the objective, of q_j·l_kj/n_j
//
// and let g be the least sum of c_k·z_k over 0 <= z_k <= w_k, sum z_k = a: the
// cheapest queries first, until their share is a. Then no policy that serves
// each query whole, on one instance, one query at a time, sustains a rate
// above 1/g.
//
// Proof. Take N queries that arrive within a time T, of which at least a·N are
// served in time. A query served in time took at most the objective, so it ran
// on a type on which its size meets the objective. Let x_kj be the number of
// size k served in time on type j. All of it ran between the first arrival and
// T + SLO, on n_j instances that each do one thing at a time:
//
//	sum over k of x_kj·l_kj <= n_j·(T + SLO)    for every type j.
//
// Weigh these with q_j/n_j and add up. As the weights add up to one,
//
//	T + SLO >= sum over j, k of x_kj·q_j·l_kj/n_j >= sum over k of c_k·(sum over j of x_kj) >= N·g,
//
// the last because z_k = (sum over j of x_kj)/N is at most w_k, their sum is at
// least a, and g is the least such sum. So N·g <= T + SLO. For long runs N/T is
// the rate, and SLO vanishes against T: rate <= 1/g. For a run of given
// arrivals, where T = span/rate, rate <= span/(N·g - SLO). This uses the shares
// of the sizes that were drawn, so it holds for that very run. QED.
//
// The claim is linear-programming duality, of which only the weak half is
// needed: bad prices loosen the bound and do not break it. Prices are found by
// exponentiated subgradient steps, and the best are kept.
type capacity struct {
	weight []float64
	attain float64
	cost   []float64 // c_k
	kind   []int     // the type that it is least on
	order  []int
	load   []float64
}

// prices looks for prices with a large g. It is 0 where the attainment cannot
// be reached at all, and no bound then: the rate is 0.
func (c *capacity) prices(kinds []kind, counts []int, slo time.Duration) (g float64, best []float64) {
	q := make([]float64, len(kinds))
	present := 0
	for j := range kinds {
		if counts[j] > 0 {
			present++
		}
	}
	for j := range kinds {
		if counts[j] > 0 {
			q[j] = 1 / float64(present)
		}
	}
	for step := range priceSteps {
		value := c.value(kinds, counts, slo, q)
		if math.IsInf(value, 1) {
			return value, nil
		}
		if value > g {
			g, best = value, append(best[:0], q...)
		}
		if present == 1 {
			break
		}
		c.follow(q, value, priceStride/math.Sqrt(float64(step+1)))
	}
	return g, best
}

// value is g at the prices q; it leaves the loads of the types, its
// supergradient, in c.load.
func (c *capacity) value(kinds []kind, counts []int, slo time.Duration, q []float64) float64 {
	for k := range c.weight {
		c.cost[k], c.kind[k] = math.Inf(1), -1
		for j := range kinds {
			if counts[j] == 0 || kinds[j].seconds[k] > slo.Seconds() {
				continue
			}
			if x := q[j] * kinds[j].seconds[k] / float64(counts[j]); x < c.cost[k] {
				c.cost[k], c.kind[k] = x, j
			}
		}
	}
	slices.SortFunc(c.order, func(a, b int) int { return cmp.Compare(c.cost[a], c.cost[b]) })
	clear(c.load)
	g, left := 0.0, c.attain
	for _, k := range c.order {
		if left <= 0 {
			break
		}
		share := min(left, c.weight[k])
		if left -= share; share <= 0 {
			continue // a size that was not drawn
		}
		g += share * c.cost[k]
		if j := c.kind[k]; j >= 0 {
			c.load[j] += share * kinds[j].seconds[k] / float64(counts[j])
		}
	}
	return g
}

// follow moves the prices towards types that are loaded more than the mean.
func (c *capacity) follow(q []float64, mean, stride float64) {
	sum := 0.0
	for j := range q {
		if q[j] > 0 {
			q[j] *= math.Exp(stride * math.Max(-2, math.Min(2, c.load[j]/mean-1)))
			q[j] = math.Max(q[j], math.SmallestNonzeroFloat32)
			sum += q[j]
		}
	}
	for j := range q {
		q[j] /= sum
	}
}

func newCapacity(weight []float64, attain float64, kinds int) *capacity {
	c := &capacity{
		weight: weight, attain: attain, cost: make([]float64, len(weight)), kind: make([]int, len(weight)),
		order: make([]int, len(weight)), load: make([]float64, kinds),
	}
	for k := range c.order {
		c.order[k] = k
	}
	return c
}
