package admission

import "math"

// horizonBuckets is how finely deadlines are told apart: in parts of the SLO.
const (
	horizonBuckets = 64
	horizonPerSLO  = 32
)

// horizonSLO stands in for the SLO of a service that has none.
const horizonSLO = 1_000_000_000 // nanoseconds

// horizon counts requests by their deadline, in buckets of time. What is overdue
// counts as due now.
type horizon struct {
	width  Time
	first  int64 // bucket of the earliest time that is kept
	counts [horizonBuckets]int
	later  map[int64]int // due after the last of counts, by bucket
	past   int           // due before first
	all    int
}

// noDeadline is the bucket of requests that are due never.
const noDeadline = math.MaxInt64

func newHorizon(slo Time) horizon {
	if slo <= 0 {
		slo = horizonSLO
	}
	return horizon{width: max(1, slo/horizonPerSLO)}
}

func (h *horizon) bucket(deadline Time) int64 {
	if deadline == 0 {
		return noDeadline
	}
	return int64(deadline / h.width)
}

// advance moves what has become overdue to past, and what was due later than the
// last bucket into the buckets that have become free.
func (h *horizon) advance(now Time) {
	to := int64(now / h.width)
	if to <= h.first {
		return
	}
	for b := h.first; b < min(to, h.first+horizonBuckets); b++ {
		i := b % horizonBuckets
		h.past += h.counts[i]
		h.counts[i] = 0
	}
	h.first = to
	for b, n := range h.later {
		if b < to+horizonBuckets {
			delete(h.later, b)
			h.put(b, n)
		}
	}
}

// add counts n requests in that are due then, or -n out.
func (h *horizon) add(now, deadline Time, n int) {
	h.advance(now)
	h.all += n
	h.put(h.bucket(deadline), n)
}

// put adds n to the count that the bucket belongs to at present.
func (h *horizon) put(bucket int64, n int) {
	switch {
	case bucket < h.first:
		h.past += n
	case bucket-h.first < horizonBuckets:
		h.counts[bucket%horizonBuckets] += n
	default:
		if h.later == nil {
			h.later = make(map[int64]int)
		}
		if h.later[bucket] += n; h.later[bucket] == 0 {
			delete(h.later, bucket)
		}
	}
}

// share is the part of all requests that is due no later than that.
func (h *horizon) share(now, deadline Time) float64 {
	h.advance(now)
	if h.all <= 0 {
		return 0
	}
	bucket, due := h.bucket(deadline), h.past
	for b := h.first; b < h.first+horizonBuckets && b <= bucket; b++ {
		due += h.counts[b%horizonBuckets]
	}
	for b, n := range h.later {
		if b <= bucket {
			due += n
		}
	}
	return min(1, max(0, float64(due)/float64(h.all)))
}
