package functions

import (
	"math"
	"slices"
)

// bound is money per second that no partition of the applications stays below:
// every application pays at least what the best group that holds it could cost
// it.
//
// Take a group that holds application w, has the shortest objective s_j and
// rate R. Folding in an application raises the equivalent objective E by at
// most r/(R·(R+r)) = 1/R - 1/(R+r), where R is the rate folded before, since
// 1-exp(-x) <= 1. The increments telescope: after the first application
//
//	E <= s_j + 1/r_j - 1/R ,
//
// and from w on, up to which no objective is longer than its own,
//
//	E <= s_w + 1/r - 1/R ,   r = r_w, or r_j + r_w when j is another one.
//
// The limits on latency, min(s_j, E - (b-1)/R), rise with R, and R is at most
// the rate of all applications whose objectives are not shorter than s_j. The
// best offer under these limits is the least that w can pay.
func (s *planner) bound() float64 {
	n := len(s.apps)
	behind := make([]float64, n+1) // rate of each application and all after it
	for i := n - 1; i >= 0; i-- {
		behind[i] = behind[i+1] + s.apps[i].rate
	}
	sum := 0.0
	for w := range n {
		if s.apps[w].rate == 0 {
			continue
		}
		if s.ended() {
			return 0 // a part of the sum would be a bound, and a poor one
		}
		least := math.Inf(1)
		for j := w; j >= 0; j-- {
			least = math.Min(least, s.share(j, w, behind[j]))
		}
		sum += least * s.apps[w].rate
	}
	return sum
}

// share is the least cost per request of a group that begins with the j-th
// application, holds the w-th and has at most the given rate.
func (s *planner) share(j, w int, rate float64) float64 {
	first, with := s.apps[j], s.apps[w]
	joint := with.rate
	if j != w {
		joint += first.rate
	}
	equiv := math.Min(first.slo+1/first.rate, with.slo+1/joint) - 1/rate
	o := s.catalogue.best(demand{rate: rate, first: first.slo, equiv: equiv})
	if o == nil {
		return math.Inf(1)
	}
	return o.Cost
}

// Size of the relaxed problem: cells that the pooled rate is rounded to, and
// the most steps of the programme.
const (
	mostCells  = 512
	relaxSteps = 2e7
	mostTiers  = 32 // steps of the staircase of objectives in the pool
	leastParts = 64 // parts that a staircase is folded in
)

// relaxed is money per second that no partition stays below, from a simpler
// problem: requests, not applications, are shared out.
//
// Applications come in falling order of objectives. Each either gives its
// requests to a pool, or leads a group, which takes any part of the pool: every
// group of a partition is led by its shortest objective. A group with leader j
// and rate R pays at least f_j(R) a request, the best offer under the longest
// limits that such a group of at most that rate can have. Sharing applications
// out in parts can only be cheaper, so the least cost is a bound.
//
// The rate in the pool is known to a cell of width h. Rounding goes to the
// cheaper side: what a leader takes counts as the least it can be where it is
// paid for, and as the most where it lowers f_j. Requests may vanish in the
// rounding, so all pay the least cost of any request beforehand, and groups pay
// what exceeds it.
func (s *planner) relaxed() float64 {
	r := relaxation{planner: s, rate: 0}
	for _, a := range s.apps {
		r.rate += a.rate
	}
	if r.rate == 0 {
		return 0
	}
	r.cells = max(8, min(mostCells, int(math.Sqrt(relaxSteps/float64(len(s.apps))))))
	r.width = r.rate / float64(r.cells)
	r.tiers = r.staircase()
	return r.solve()
}

type relaxation struct {
	*planner
	rate  float64 // of all applications
	cells int
	width float64 // requests per second in a cell
	tiers []tier
}

func (r *relaxation) solve() float64 {
	n := len(r.apps)
	prices := make([][]float64, n)
	least, behind := math.Inf(1), 0.0
	for j := n - 1; j >= 0; j-- {
		if r.ended() {
			return 0
		}
		prices[j] = r.prices(j, behind)
		behind += r.apps[j].rate
		least = math.Min(least, prices[j][len(prices[j])-1])
	}
	if math.IsInf(least, 1) {
		return 0
	}
	cost := make([]float64, r.cells+1) // by cell of the pool; infinite where it cannot be
	for k := range cost {
		cost[k] = math.Inf(1)
	}
	cost[0] = 0
	for j := n - 1; j >= 0; j-- {
		if r.ended() {
			return 0
		}
		cost = r.step(j, cost, prices[j], least)
	}
	return r.rate*least + cost[0]
}

// step lets the j-th application give to the pool or lead a group.
func (r *relaxation) step(j int, cost, prices []float64, least float64) []float64 {
	next := make([]float64, len(cost))
	for k := range next {
		next[k] = math.Inf(1)
	}
	rate := r.apps[j].rate
	shift := int(rate / r.width)
	for k, c := range cost {
		if math.IsInf(c, 1) {
			continue
		}
		for _, to := range []int{k + shift, k + shift + 1} {
			to = min(to, r.cells)
			next[to] = math.Min(next[to], c)
		}
		for left := range k + 1 {
			d := k - left
			paid := rate + math.Max(0, float64(d-1)*r.width)
			if sum := c + paid*(prices[min(d, len(prices)-1)]-least); sum < next[left] {
				next[left] = sum
			}
		}
	}
	return next
}

// prices are the least costs of a request in a group that the j-th application
// leads and that takes at most k+1 cells from a pool of the given rate.
//
// For what is taken between k and k+1 cells, the requests with the longest
// objectives are k cells from the end of the staircase, and what is beyond
// counts as if it had the very longest: at every point of the fold that is no
// shorter an objective than any choice can have there. The limits need not rise
// with what is taken (hasty requests shorten the timeout of all), so the least
// price up to each cell counts.
func (r *relaxation) prices(j int, pool float64) []float64 {
	taken := min(r.cells, int(pool/r.width)+1)
	list := make([]float64, taken+1)
	last := r.tiers[len(r.tiers)-1].slo
	for k := range list {
		low, high := math.Min(float64(k)*r.width, pool), math.Min(float64(k+1)*r.width, pool)
		d := r.longest(j, low).atMost(r.apps[j].rate+high, last)
		list[k] = math.Inf(1)
		if o := r.catalogue.best(d); o != nil {
			list[k] = o.Cost
		}
		if k > 0 {
			list[k] = math.Min(list[k], list[k-1])
		}
	}
	return list
}

// tier is requests with objectives no longer than slo.
type tier struct{ slo, rate float64 }

// staircase sorts all requests by objective, the shortest first, in tiers of
// about the same rate.
func (r *relaxation) staircase() []tier {
	var list []tier
	for i := len(r.apps) - 1; i >= 0; i-- {
		a := r.apps[i]
		n := len(list)
		if len(r.apps) > mostTiers && n > 0 && list[n-1].rate+a.rate <= r.rate/mostTiers {
			list[n-1].rate += a.rate
			continue
		}
		list = append(list, tier{a.slo, a.rate})
	}
	slices.Reverse(list)
	return list
}

// longest is the demand of the j-th application and that rate from the pool,
// with the longest equivalent objective that it can have: of all requests,
// those with the longest objectives come along.
func (r *relaxation) longest(j int, rate float64) demand {
	d := alone(r.apps[j].slo, r.apps[j].rate)
	from, left := len(r.tiers), rate
	for from > 0 && left > 0 {
		from--
		left -= r.tiers[from].rate
	}
	parts := max(1, leastParts/len(r.tiers))
	for _, t := range r.tiers[from:] {
		part := t.rate
		if left < 0 {
			part, left = part+left, 0 // the rest of the tier stays in the pool
		}
		for range parts {
			d = d.atMost(d.rate+part/float64(parts), math.Max(t.slo, d.first))
		}
	}
	return d
}

// atMost is the demand when the rate rises to the given one and no objective is
// longer than that: its equivalent objective is the longest possible.
//
// By equation 5 an application that comes last adds
// (1/R - 1/(R+r)) · (1 - exp(-R·(slo - E))) to E. That rises with slo, and the
// sum rises when the application is cut into smaller ones, up to the solution
// of dE/dR = (1 - exp(-R·(slo - E)))/R². As R·(slo - E) grows along the way,
// (R+r)·(slo - E) before the step is no less than it ever is within.
func (d demand) atMost(rate, slo float64) demand {
	if rate <= d.rate {
		return d
	}
	if d.rate == 0 {
		d.rate, d.equiv = rate, slo
		return d
	}
	gain := (1/d.rate - 1/rate) * -math.Expm1(-rate*(slo-d.equiv))
	d.equiv = math.Min(slo, d.equiv+gain)
	d.rate = rate
	return d
}
