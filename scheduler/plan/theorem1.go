package plan

import (
	"time"
)

// readings of Theorem 1. It counts for every machine the rate of all machines of
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

// readings lists the names that Options.Reading takes.
func readings() []string { return []string{ReadingOwn, ReadingLiteral} }

// PartialWorstCase is the worst case of machines with configuration c that
// collect their batches at rate requests per second: d + b/w. One machine that is
// only partly used is the last in its order, so under either dispatch it collects
// at its own rate.
func PartialWorstCase(c Config, rate float64) time.Duration {
	return c.Duration + Collection(c.Batch, rate)
}

// Collection is how long b requests take to come at rate w.
func Collection(b int, w float64) time.Duration {
	return ToDuration(float64(b) / w)
}

// CollectRate is the rate at which a batch of c is collected just in time, 0
// when no rate is enough.
func CollectRate(c Config, budget time.Duration) float64 {
	if budget <= c.Duration {
		return 0
	}
	// A nanosecond is taken off so that rounding up the collection time again
	// cannot pass the budget.
	return float64(c.Batch) / (budget - c.Duration).Seconds() * (1 + RateTolerance)
}
