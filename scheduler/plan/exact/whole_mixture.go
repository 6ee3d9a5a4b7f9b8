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
// With the periods fixed, the processor-demand test is linear in the rates: at every due
// date t the sum of (number of batches due by t) · rate · period is at most T·t. So for
// given periods the test is a linear program, and for two members an interval of the first
// one's rate. Tried are the periods that the devices can keep up with at their fastest, and
// harmonic ones, whose due dates fall together. For more than two members only the
// sufficient condition of separate is tried.
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

// maxRefutation bounds the boxes of one refutation; one that needs more is
// given up.
const maxRefutation = 60000

// refuted reports that two members cannot promise the latency, whatever periods
// they start their batches in and however the stream is divided between them:
// no choice passes the processor-demand test.
//
// It is a branch and bound over boxes of the two periods. In a box, by any time
// t at least k = floor((t - W)/P_high) + 1 batches of a member are due, and each
// holds at least rate·P_low requests; so that
//
//	k_a·x·P_a,low + k_b·(T - x)·P_b,low  <=  T·t
//
// is necessary for every t, and linear in the rate x of the first member. A box
// in which no x is left holds no sound plan; any other is cut in two. False
// means that the search gave up, or found a point that may be sound.
func refuted(rate float64, a, b member, latency float64) bool {
	r := refutation{rate: rate, a: a, b: b, wa: latency - a.Duration.Seconds(), wb: latency - b.Duration.Seconds()}
	if r.wa <= 0 || r.wb <= 0 {
		return true // a member that can start nothing; the other one is not enough
	}
	r.fa, r.fb = math.Min(float64(a.Batch), rate*r.wa), math.Min(float64(b.Batch), rate*r.wb)
	r.x = interval{low: rate - r.fb/b.gap(), high: r.fa / a.gap()}
	switch {
	case r.x.low > r.x.high:
		return true
	case r.x.low <= 0 || r.x.high >= rate:
		return false // one member is enough
	}
	r.boxes = append(r.boxes, periods{
		a: interval{a.gap(), r.fa / r.x.low},
		b: interval{b.gap(), r.fb / (rate - r.x.high)},
	})
	for n := 0; len(r.boxes) > 0; n++ {
		if n == maxRefutation {
			return false
		}
		last := len(r.boxes) - 1
		box := r.boxes[last]
		r.boxes = r.boxes[:last]
		if r.empty(box) {
			continue
		}
		if !r.cut(box) {
			return false
		}
	}
	return true
}

// refutation is one run of refuted.
type refutation struct {
	rate   float64
	a, b   member
	wa, wb float64  // windows, seconds
	fa, fb float64  // most requests of a batch
	x      interval // rates of a that are possible at all
	boxes  []periods
}

// periods is a box of the search, in seconds.
type periods struct{ a, b interval }

// empty reports that no rate passes the test for any periods in the box.
func (r *refutation) empty(p periods) bool {
	x := r.x
	x.low = math.Max(x.low, r.rate-r.fb/p.b.low)
	x.high = math.Min(x.high, r.fa/p.a.low)
	r.average(&x, p)
	const dates = 24 // of each member
	for m := range dates {
		r.date(&x, p, r.wa+float64(m)*p.a.high)
		r.date(&x, p, r.wb+float64(m)*p.b.high)
		if x.low > x.high*(1+1e-12) {
			return true
		}
	}
	return false
}

// date keeps the rates for which what is due by t has come by then.
func (r *refutation) date(x *interval, p periods, t float64) {
	ka, kb := due(t, r.wa, p.a.high), due(t, r.wb, p.b.high)
	x.atLeast(-(ka*p.a.low - kb*p.b.low), -r.rate*(t-kb*p.b.low))
}

// average keeps the rates that can hold for ever. Far out the two members' due
// dates meet in phases that are multiples of the greatest common divisor g of
// the periods apart. At a due date of a, b's phase is as small as phi < g at
// times, and at one of b, a's as small as g - phi; so that
//
//	sum of rate·(period - window)  <=  min(f_b·phi, f_a·(g - phi))  <=  f_a·f_b·g/T ,
//
// and at most zero where the periods have no common divisor.
func (r *refutation) average(x *interval, p periods) {
	n := numerator(p.a.low/p.b.high, p.a.high/p.b.low)
	g := p.a.high / n
	most := r.rate / 4 // of f_a·f_b/T
	if x.high < r.rate/2 {
		most = x.high * (r.rate - x.high) / r.rate
	} else if x.low > r.rate/2 {
		most = x.low * (r.rate - x.low) / r.rate
	}
	sa, sb := p.a.low-r.wa, p.b.low-r.wb
	x.atLeast(-(sa - sb), -(most*g - r.rate*sb))
}

// numerator is that of the simplest fraction between low and high, by
// continued fractions.
func numerator(low, high float64) float64 {
	up, _ := simplest(low*(1-1e-12), high*(1+1e-12), 40)
	return up
}

func simplest(low, high float64, depth int) (up, down float64) {
	floor := math.Floor(low)
	if floor == low {
		return math.Max(floor, 1), 1
	}
	if floor+1 <= high || depth == 0 {
		return floor + 1, 1
	}
	d, u := simplest(1/(high-floor), 1/(low-floor), depth-1)
	return floor*u + d, u
}

// cut halves the box across its relatively longer side; false when it is too
// small for that.
func (r *refutation) cut(p periods) bool {
	left, right := p, p
	if p.a.high/p.a.low >= p.b.high/p.b.low {
		mid := math.Sqrt(p.a.low * p.a.high)
		left.a.high, right.a.low = mid, mid
	} else {
		mid := math.Sqrt(p.b.low * p.b.high)
		left.b.high, right.b.low = mid, mid
	}
	if p.a.high/p.a.low < 1+1e-9 && p.b.high/p.b.low < 1+1e-9 {
		return false
	}
	r.boxes = append(r.boxes, right, left)
	return true
}
