package plan

import (
	"fmt"
	"math"
	"time"
)

// Readings of Theorem 1. It counts for every machine the rate of all machines of
// no better ratio, which for a partly used machine includes the full ones of its
// own configuration. The papers' worked examples do not: there the partly used
// machine collects what is left, and nothing else.
//
// M3 of Table I (Harpagon) shows the difference: 38 requests per second at batch
// 8 within 1 s take 1.19 machines literally, because 0.25 + 8/38 = 0.46; the
// paper uses batch 8 for one machine and batch 2 for the remaining 6 requests,
// because 0.25 + 8/6 = 1.58. Taken literally Algorithm 1 never needs a second
// configuration: the first that keeps the budget takes everything.
const (
	ReadingOwn     = "own"     // a partly used machine collects at its own rate
	ReadingLiteral = "literal" // all machines of a configuration collect together
)

// Readings lists the names that Options.Reading takes.
func Readings() []string { return []string{ReadingOwn, ReadingLiteral} }

func (o Options) checkReading() error {
	switch o.Reading {
	case "", ReadingOwn:
		return nil
	case ReadingLiteral:
		if o.fixed() || o.policy() == PolicyExact || o.policy() == PolicyBrute {
			return fmt.Errorf("plan: policy %s has one reading of Theorem 1; take policy harpagon or piccolo for reading %q", o.policy(), o.Reading)
		}
		return nil
	}
	return fmt.Errorf("plan: there is no reading %q of Theorem 1; there is %s and %s", o.Reading, ReadingOwn, ReadingLiteral)
}

// worstCase is GetWCL of the paper: the worst-case latency of full machines of
// configuration c whose batches are collected at w requests per second.
//
// Theorem 1: with throughput-cost dispatch, w is the rate of all machines
// whose throughput-cost ratio is no better, and the worst case is d + b/w.
// Without it (round robin) every machine collects at its own rate; a full one
// needs 2d. In between (without "dt", as Scrooge dispatches), the machines of one
// configuration collect together, apart from all others: w is the rate of those
// that w fills.
func (s *scheduler) worstCase(c config, w float64) time.Duration {
	if s.roundRobin {
		return 2 * c.duration
	}
	if s.apart {
		if n := math.Floor(w/c.throughput() + rateTolerance); n >= 1 {
			w = n * c.throughput()
		}
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
