package functions

import "math"

// batchTolerance is how far the expected number of requests within the
// equivalent timeout may stay below what the batch needs, and still fill it.
const batchTolerance = 1e-9

// demand is what a group asks of a function, whatever the function: applications
// folded into one, in rising order of objectives.
//
// With timeouts T = slo - latency, equation 5 folds two applications into
//
//	T1 + (r2/(r1+r2)) · (1 - exp(-r1·(T2-T1))) / r1
//
// and T2-T1 = slo2-slo1, whatever the latency. So the fold is done once, over
// objectives, and the equivalent timeout is the equivalent objective less the
// latency.
type demand struct {
	rate  float64 // requests per second
	first float64 // shortest objective, seconds
	equiv float64 // equivalent objective, seconds
}

// alone is the demand of one application.
func alone(slo, rate float64) demand { return demand{rate: rate, first: slo, equiv: slo} }

// join folds in an application whose objective is not shorter than any that was
// folded before (equation 5).
func (d demand) join(slo, rate float64) demand {
	total := d.rate + rate
	if total == 0 || rate == 0 {
		d.rate = total
		return d
	}
	gap := slo - d.equiv
	wait := gap // the limit of the formula as d.rate goes to zero
	if d.rate > 0 {
		wait = -math.Expm1(-d.rate*gap) / d.rate
	}
	d.equiv += rate / total * wait
	d.rate = total
	return d
}

// limit is the longest maximum latency of a function that keeps every objective
// of the group (constraint 10) and leaves time for b requests to come: the
// first opens the batch, and b-1 more arrive within the equivalent timeout
// (constraint 9).
func (d demand) limit(b int) float64 {
	if b <= 1 {
		return d.first
	}
	if d.rate == 0 {
		return math.Inf(-1)
	}
	return math.Min(d.first, d.equiv-(float64(b-1)-batchTolerance)/d.rate)
}

// timeout is the equivalent timeout of the group for a function of that maximum
// latency, in seconds.
func (d demand) timeout(latency float64) float64 { return d.equiv - latency }
