package exact

import "math"

// maxRefutation bounds the boxes of one refutation; one that needs more is
// given up.
const maxRefutation = 60000

// refuted says that two members cannot promise the latency, whatever periods
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

// empty says that no rate passes the test for any periods in the box.
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
