package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// member is n devices of one configuration, as part of a mixture.
type member struct {
	plan.Config
	n int
}

// gap is the least time between two batches of the member, in seconds.
func (m member) gap() float64 { return m.Interval() / float64(m.n) }

// capacity is the most requests per second that the member serves.
func (m member) capacity() float64 { return float64(m.Batch) / m.gap() }

// share is what a member of a mixture receives: rate requests per second,
// collected into a batch every period seconds.
type share struct {
	rate   float64
	period float64
}

// shares divides a stream among members of which all promise the latency; false
// when no division is found whose batches can be collected in time.
//
// With the periods fixed, what the processor-demand test asks is linear in the
// rates: at every due date t the sum of (number of batches due by t) · rate ·
// period is at most T·t. So for given periods the test is a linear program, and
// for two members an interval of the first one's rate. Tried are the periods
// that the devices can keep up with at their fastest, and harmonic ones, whose
// due dates fall together. For more than two members only the sufficient
// condition of separate is tried.
func shares(rate float64, members []member, latency float64) ([]share, bool) {
	if s, ok := separate(rate, members, latency); ok {
		return s, true
	}
	if len(members) != 2 {
		return nil, false
	}
	a, b := members[0], members[1]
	for _, by := range pairings(a.gap(), b.gap()) {
		if s, ok := divide(rate, a, b, latency, by); ok {
			return s, true
		}
	}
	return nil, false
}

// separate lets every member collect at its own rate, evenly spread over the
// stream: a batch takes one period to collect, so no window may be shorter than
// that. Demand never exceeds supply then, whatever the periods are.
func separate(rate float64, members []member, latency float64) ([]share, bool) {
	total := 0.0
	for _, m := range members {
		if m.Duration.Seconds()+m.gap() > latency {
			return nil, false
		}
		total += m.capacity()
	}
	if total < rate*(1-plan.RateTolerance) {
		return nil, false
	}
	list := make([]share, len(members))
	for i, m := range members {
		list[i] = share{rate: rate * m.capacity() / total, period: m.gap()}
	}
	return list, true
}

// pairing is a choice of two periods that are p and q times a common divisor,
// in seconds; p is 0 where they have none.
type pairing struct {
	p, q    float64
	divisor float64
	a, b    float64
}

// maxRatio bounds numerator and denominator of the ratios of periods tried.
const maxRatio = 24

// pairings lists the periods to try for two members whose devices are ready
// every a and b seconds: those themselves, and for every simple fraction p/q
// near a/b the shortest pair with that ratio. A common divisor makes the due
// dates fall together again and again, which leaves room between them.
func pairings(a, b float64) []pairing {
	list := []pairing{{a: wholeSeconds(a), b: wholeSeconds(b)}}
	ratio := a / b
	for q := 1.0; q <= maxRatio; q++ {
		for _, p := range []float64{math.Floor(ratio * q), math.Ceil(ratio * q)} {
			if p >= 1 && p <= maxRatio && divisor(p, q) == 1 {
				list = append(list, paired(a, b, p, q))
			}
		}
	}
	if ratio > maxRatio {
		list = append(list, paired(a, b, math.Floor(ratio), 1), paired(a, b, math.Ceil(ratio), 1))
	}
	if ratio < 1.0/maxRatio {
		list = append(list, paired(a, b, 1, math.Floor(1/ratio)), paired(a, b, 1, math.Ceil(1/ratio)))
	}
	return append(list, paired(a, b, 1, 1))
}

func paired(a, b, p, q float64) pairing {
	g := wholeSeconds(math.Max(a/p, b/q))
	return pairing{p: p, q: q, divisor: g, a: p * g, b: q * g}
}

// divisor is the greatest that two whole numbers have in common.
func divisor(p, q float64) float64 {
	for q > 0 {
		p, q = q, math.Mod(p, q)
	}
	return p
}

// maxDue bounds the due dates that one division looks at.
const maxDue = 4096

// divide finds the rates of two members under fixed periods.
func divide(rate float64, a, b member, latency float64, by pairing) ([]share, bool) {
	pa, pb := by.a, by.b
	wa, wb := latency-a.Duration.Seconds(), latency-b.Duration.Seconds()
	if wa <= 0 || wb <= 0 {
		return nil, false
	}
	r := interval{low: math.Max(0, rate-float64(b.Batch)/pb), high: math.Min(rate, float64(a.Batch)/pa)}
	last := math.Max(wa, wb)
	if by.p > 0 {
		last += by.p * pb
	} else {
		// Without a common multiple the demand comes as near to its upper
		// envelope as you like: sum of rate·(window - period) must not be
		// negative.
		r.atLeast((wa-pa)-(wb-pb), -rate*(wb-pb))
	}
	if last > maxDue*math.Min(pa, pb) {
		return nil, false
	}
	for ta, tb := wa, wb; r.low <= r.high; {
		t := math.Min(ta, tb)
		if t > last*(1+1e-12) {
			break
		}
		ka, kb := due(t, wa, pa), due(t, wb, pb)
		// ka·x·pa + kb·(rate - x)·pb <= rate·t
		r.atLeast(-(ka*pa - kb*pb), -rate*(t-kb*pb))
		if ta <= t {
			ta += pa
		}
		if tb <= t {
			tb += pb
		}
	}
	if r.low > r.high {
		return nil, false
	}
	x := (r.low + r.high) / 2
	return []share{{x, pa}, {rate - x, pb}}, true
}

// due is the number of batches due by t, window and period given.
func due(t, window, period float64) float64 {
	return math.Max(0, math.Floor((t-window)/period+1e-12)+1)
}

// interval of rates that are still possible.
type interval struct{ low, high float64 }

// atLeast keeps the x with slope·x >= bound.
func (r *interval) atLeast(slope, bound float64) {
	switch {
	case slope > 0:
		r.low = math.Max(r.low, bound/slope)
	case slope < 0:
		r.high = math.Min(r.high, bound/slope)
	case bound > 0:
		r.high = math.Inf(-1)
	}
}

// wholeSeconds rounds up to whole nanoseconds.
func wholeSeconds(s float64) float64 { return plan.ToDuration(s).Seconds() }

// singly is what must be added to a sound latency so that requests that are
// counted singly keep it, too.
func singly(rate float64, members []member, latency time.Duration) time.Duration {
	split, _ := shares(rate, members, latency.Seconds())
	var groups []plan.Group
	for i, s := range split {
		if m := members[i]; s.rate > plan.RateTolerance*rate {
			groups = append(groups, plan.Group{Batch: m.Batch, Duration: m.Duration, Period: plan.ToDuration(s.period), Machines: float64(m.n), Rate: s.rate})
		}
	}
	return plan.SingleMargin(rate, groups, latency)
}

// leastSound is the least latency for which shares finds a division, between a
// latency below which there is none and the longest of interest; false when
// there is none up to that.
func leastSound(rate float64, members []member, from, to time.Duration) (time.Duration, bool) {
	ok := func(l time.Duration) bool {
		_, ok := shares(rate, members, l.Seconds())
		return ok
	}
	if !ok(to) {
		return 0, false
	}
	low, high := from, to
	for high-low > 1 {
		if mid := low + (high-low)/2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high, true
}
