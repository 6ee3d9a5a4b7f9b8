package shared

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Tuning of burst.
const (
	burstMemory = 10e9 // nanoseconds over which the counts fade
	burstLeast  = 1.1  // crowding from which on arrivals come in bursts
	burstSure   = 4.0  // standard deviations of what Poisson arrivals would show, on top
	burstWithin = 0.5  // of the crowding is within buckets, at least; where less is, the rate has changed
	burstQuiet  = 24   // a burst is over after this part of the time that its first request can wait

	pauseGaps = 10 // mean gaps between bursts without a request until it is taken that none comes soon
	pausePart = 12 // and this part of the time that a request can wait, at least

	resumeLeast = 50 * time.Millisecond // a pause that leaves nothing of the rate, at least
)

// burst tells whether the requests of a model come in bursts, or have paused, by how many more
// come soon after a request than the mean rate has it: the mean of
// count·(count - 1) over buckets of time, divided by the square of the mean
// count. Poisson arrivals have 1, even ones less. Where the rate changes, neighbouring buckets
// change alike: there the mean product of their counts takes the place of that square, which
// would tell of bursts for a minute after a load has fallen to a thirtieth.
type burst struct {
	width   dispatch.Time // of a bucket: how long a request can wait
	end     dispatch.Time // of the running bucket
	count   int
	buckets float64       // fading sums over the buckets
	first   float64       // of the count
	second  float64       // of count·(count - 1)
	pairs   float64       // of count·(count of the bucket before)
	before  float64       // count of the last bucket that ended
	alike   float64       // what second would be if they came at random
	crowded bool          // they tell of bursts
	excess  float64       // the crowding beyond that of Poisson arrivals; 0 where they do not come in bursts
	last    dispatch.Time // when a request came last
	look    dispatch.Time // when to see whether the stream has paused
}

func newBurst(wait dispatch.Time) burst { return burst{width: max(1, wait)} }

// hit counts an arrival.
func (b *burst) hit(now dispatch.Time) {
	if now >= b.end {
		b.close(now)
	}
	b.count++
	b.last = now
}

// over is when the running burst ends if nothing more comes; sooner where waiting for the
// rest of it gains only a part of what it may.
func (b *burst) over(gains float64) dispatch.Time {
	return b.last + dispatch.Time(gains*float64(b.width/burstQuiet))
}

// paused says whether the stream has paused at that rate: nothing has come for so long that
// nothing will soon. If not, look is when to ask again.
func (b *burst) paused(now dispatch.Time, rate float64) bool {
	if now < b.look {
		return false
	}
	end := b.last + b.pause(rate)
	b.look = min(end, now+b.width)
	return now >= end
}

// resumes says whether an arrival at that instant is the first after a pause that leaves
// nothing of the rate: twice as long as it takes to tell one, since to be wrong costs more.
func (b *burst) resumes(now dispatch.Time, rate float64) bool {
	return now-b.last >= resumeLeast && now-b.last >= 2*b.pause(rate)
}

// pause is how long nothing comes at that rate once a stream has paused. Of Poisson arrivals
// that errs once in e^pauseGaps requests. Others come in groups, with longer gaps between: the
// variance of the count over its mean, which is 1 of Poisson arrivals, is their size.
func (b *burst) pause(rate float64) dispatch.Time {
	if b.first == 0 || rate <= 0 {
		return never / 4
	}
	group := 1 + max(0, b.second-b.alike)/b.first
	return dispatch.Time(min(float64(never/4), max(float64(b.width)/pausePart, pauseGaps*group/rate*1e9)))
}

// close adds up the bucket that has ended, and the empty ones after it.
func (b *burst) close(now dispatch.Time) {
	if b.end == 0 {
		b.end = now + b.width
		return
	}
	passed := 1 + (now-b.end)/b.width
	fade := math.Exp(-float64(passed) * float64(b.width) / burstMemory)
	n := float64(b.count)
	b.first = (b.first + n) * fade
	b.second = (b.second + n*(n-1)) * fade
	b.pairs = (b.pairs + n*b.before) * fade
	b.buckets = (b.buckets + float64(passed)) * fade
	b.count, b.before = 0, n
	if passed > 1 { // others were empty
		b.before = 0
	}
	b.end += passed * b.width
	mean := b.first / b.buckets
	chance := math.Sqrt(2/b.buckets) / mean // of the crowding of Poisson arrivals
	b.alike = b.first * mean
	if b.second-b.pairs < burstWithin*(b.second-b.alike) {
		b.alike = b.pairs
	}
	b.crowded = b.first > 0 && b.second > (burstLeast+burstSure*chance)*b.alike
	b.excess = 0
	if b.crowded {
		b.excess = b.second/b.alike - 1
	}
}

// runs says whether a burst goes on at that instant; see over.
func (b *burst) runs(now dispatch.Time, gains float64) bool {
	return b.crowded && now < b.over(gains)
}
