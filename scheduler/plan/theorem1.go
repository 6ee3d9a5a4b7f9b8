package plan

import "time"

// worstCase is GetWCL of the paper: the worst-case latency of full machines of
// configuration c whose batches are collected at w requests per second.
//
// Theorem 1: with throughput-cost dispatch, w is the rate of all machines
// whose throughput-cost ratio is no better, and the worst case is d + b/w.
// Without it (round robin) every machine collects at its own rate; a full one
// needs 2d.
func (s *scheduler) worstCase(c config, w float64) time.Duration {
	if s.roundRobin {
		return 2 * c.duration
	}
	return partialWorstCase(c, w)
}

// partialWorstCase is that of one machine that is only partly used. It is the
// last in its order, so under either dispatch it collects at its own rate.
func partialWorstCase(c config, rate float64) time.Duration {
	return c.duration + collection(c.batch, rate)
}

// collection is how long b requests take to come at rate w.
func collection(b int, w float64) time.Duration {
	return toDuration(float64(b) / w)
}
