package functions

import "math"

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
