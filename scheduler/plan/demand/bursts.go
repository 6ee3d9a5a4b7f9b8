package demand

import "math"

// Bursts is a stream whose items come several at one instant: those of one request, each
// time. Times are in seconds.
type Bursts struct {
	Items int     // of one burst, at the most
	Gap   float64 // from one burst to the next, at the least

	// Any means that the items of a burst need not come at one instant: they are of several sources,
	// each of which sends once a Gap, whenever it likes, and up to Jitter later. At most Items come
	// at once, and in every Gap.
	Any    bool
	Jitter float64
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

// Collected is the least latency that n executors promise every item where a batch is what waits
// when an executor is free, the first to come first, up to so many, and takes that duration. It
// holds for items of any phases (Any):
//
//	max over j >= 0 of d·(ceil((j+1)·k/(b·n)) + 1) - max(0, j·G - J) .
//
// Let an item come at v, and s be the last time before its start at which an executor was idle,
// or began a batch that was not full, or one with an item that came after v. What came by then
// has begun by then, so full batches of those that came within (s, v] are all that begin between
// s and the item's batch, one executor after the other, each free by s + d. In a half-open
// interval of length u come at most k·ceil((u + J)/G) items, k if u is near 0. +Inf where
// executors are too few, k·d > b·n·G.
func (b Bursts) Collected(batch, n int, duration float64) float64 {
	does := float64(batch) * float64(n)
	if b.Items <= 0 || n <= 0 || float64(b.Items)*duration > does*b.Gap*(1+slack) {
		return math.Inf(1)
	}
	items, most := float64(b.Items), 0.0
	steps := batch*n/divisor(b.Items, batch*n) + 1 // then the same comes again, no larger
	if b.Jitter > 0 {
		steps += int(min(b.Jitter/b.Gap, mostSteps)) + 1 // of which any may come at once
	}
	for j := range min(steps, mostSteps) {
		most = max(most, duration*(math.Ceil(float64(j+1)*items/does-slack)+1)-max(0, float64(j)*b.Gap-b.Jitter))
	}
	if steps > mostSteps {
		return max(most, duration*(items/does+2)+b.Jitter) // rounding up adds less than a duration
	}
	return most
}

// Shaped is how much longer windows must be than those that Test asks for where the stream
// is a fluid of its mean rate, so that batches may hold items of several bursts: an item stands for
// fluid that passes a shaper up to one gap after it came (Le Boudec and Thiran 2001, 1.5). It
// holds for fewer items and longer gaps, too.
func (b Bursts) Shaped() float64 { return b.Gap + b.Jitter }

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
