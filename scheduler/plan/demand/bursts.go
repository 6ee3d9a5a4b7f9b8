package demand

import "math"

// Bursts is a stream whose items come several at one instant: those of one request, each
// time. Times are in seconds.
type Bursts struct {
	Items int     // of one burst, at the most
	Gap   float64 // from one burst to the next, at the least
}

// mostSteps bounds the batches that one test looks back over; a test that would need more
// takes what is certain of all of them.
const mostSteps = 1 << 14

// together is how far apart two instants may be that count as the same.
const together = 1e-6

// rounding covers that instants are whole nanoseconds.
const rounding = 2e-9

// Unmixed is the least latency that n executors promise every item of bursts that come to
// them in so many batches each, none of which holds items of two bursts: batches run in the
// order in which they come, each for duration on the first executor that is free. It is
//
//	max over j >= 0 of (j+1)·d - floor(j·n/m)·G ,
//
// m batches a burst and G the gap: the batch j·n before the last of a burst came
// floor(j·n/m) gaps sooner. +Inf where executors are too few, m·d > n·G.
func (b Bursts) Unmixed(batches, n int, duration float64) float64 {
	if batches <= 0 {
		return 0
	}
	if duration*float64(batches) > b.Gap*float64(n)*(1+slack) {
		return math.Inf(1)
	}
	period := batches / divisor(batches, n) // then the same comes again, no later
	if period > mostSteps {
		return duration + b.Gap
	}
	least := 0.0
	for j := range period {
		least = max(least, float64(j+1)*duration-float64(j*n/batches)*b.Gap)
	}
	return least
}

// Shaped is how much longer windows must be than those that Test asks for where the stream
// is a fluid of its mean rate, so that batches may hold items of several bursts: an item stands for
// fluid that passes a shaper up to one gap after it came (Le Boudec and Thiran 2001, 1.5). It
// holds for fewer items and longer gaps, too.
func (b Bursts) Shaped() float64 { return b.Gap }

// Batches is the most batches of each burst that n executors do within a latency, unmixed.
func (b Bursts) Batches(n int, duration, latency float64) int {
	if latency < duration*(1-slack) || n <= 0 {
		return 0
	}
	low, high := 0, int(min(float64(n)*b.Gap/duration*(1+slack), math.MaxInt32))
	for low < high {
		if mid := (low + high + 1) / 2; b.Unmixed(mid, n, duration) <= latency*(1+slack) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// Cannot reports whether no rule of dispatch keeps the latency with executors of which those
// of one kind do at most batches(t) · b items within a time t from their start: by the latency
// after the last of some bursts all of these must be done, and none was begun before the first.
func (b Bursts) Cannot(latency float64, items func(time float64) float64) bool {
	const bursts = 8
	for j := range bursts {
		if items(latency+float64(j)*b.Gap) < float64((j+1)*b.Items) {
			return true
		}
	}
	return false
}

func divisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
