package admission

// horizonBuckets is how finely deadlines are told apart: in parts of the SLO.
const (
	horizonBuckets = 64
	horizonPerSLO  = 32
)

// horizon counts requests by their deadline, in buckets of time. What is overdue
// counts as due now, and what is due beyond the last bucket in the last.
type horizon struct {
	width  Time
	first  int64 // bucket of the earliest time that is kept
	counts [horizonBuckets]int
	past   int // due before that
	all    int
}

func newHorizon(slo Time) horizon { return horizon{width: max(1, slo/horizonPerSLO)} }

func (h *horizon) bucket(t Time) int64 { return int64(t / h.width) }

// advance moves what has become overdue to past.
func (h *horizon) advance(now Time) {
	to := h.bucket(now)
	if to-h.first >= horizonBuckets {
		for i := range h.counts {
			h.past += h.counts[i]
			h.counts[i] = 0
		}
		h.first = to
		return
	}
	for ; h.first < to; h.first++ {
		i := h.first % horizonBuckets
		h.past += h.counts[i]
		h.counts[i] = 0
	}
}

// add counts n requests in that are due then, or -n out.
func (h *horizon) add(now, deadline Time, n int) {
	h.advance(now)
	h.all += n
	b := h.bucket(deadline)
	if deadline == 0 {
		b = h.first + horizonBuckets - 1
	}
	if b < h.first {
		h.past += n
		return
	}
	i := min(b, h.first+horizonBuckets-1) % horizonBuckets
	h.counts[i] += n
}

// share is the part of all requests that is due no later than that.
func (h *horizon) share(now, deadline Time) float64 {
	h.advance(now)
	if h.all <= 0 {
		return 0
	}
	b, due := h.bucket(deadline), h.past
	if b-h.first >= horizonBuckets-1 {
		return 1
	}
	for k := h.first; k <= b; k++ {
		due += h.counts[k%horizonBuckets]
	}
	return min(1, max(0, float64(due)/float64(h.all)))
}
