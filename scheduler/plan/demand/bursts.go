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

	// Kinds are those of sources that send at several rates, or else empty; see Several.
	Kinds []Bursts
}

// Several is the stream of all items of several kinds of sources (Any), each with its own gap and
// jitter: what comes in any time is the sum of what each lets come. As many come at once as of all kinds
// together, and the Gap is that in which so many come on average.
func Several(kinds []Bursts) Bursts {
	b, rate := Bursts{Any: true, Kinds: kinds}, 0.0
	for _, k := range kinds {
		b.Items += k.Items
		b.Jitter = max(b.Jitter, k.Jitter)
		rate += float64(k.Items) / k.Gap
	}
	b.Gap = float64(b.Items) / rate
	return b
}

// Came is how many items come within a time from an instant at which all sources send, that instant and
// the last one included, without jitter.
func (b Bursts) Came(time float64) (items int) {
	if len(b.Kinds) == 0 {
		return b.Items * (int(time/b.Gap*(1+slack)) + 1)
	}
	for _, k := range b.Kinds {
		items += k.Came(time)
	}
	return items
}

// Next is the time between two instants, at the least, at which items of one source come.
func (b Bursts) Next() float64 {
	next := b.Gap
	for i, k := range b.Kinds {
		if i == 0 || k.Gap < next {
			next = k.Gap
		}
	}
	return next
}

// most is how many items come in a time that is longer by any little, at the most.
func (b Bursts) most(time float64) (items float64) {
	for _, k := range b.Kinds {
		items += float64(k.Items) * (math.Floor((time+k.Jitter)/k.Gap*(1+slack)) + 1)
	}
	return items
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
	if len(b.Kinds) > 0 {
		return b.severalCollected(does, duration)
	}
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

// severalCollected is Collected for several kinds, which lets in an interval of length u come at
// most a(u) = sum of k_i·ceil((u + J_i)/G_i) items:
//
//	max over u of d·(ceil(a(u+)/(b·n)) + 1) - u ,
//
// u = 0 and all j·G_i - J_i > 0, just before which a does not grow. Since a(u+) <= r·u + c for their
// rate r and c = sum of k_i·(1 + J_i/G_i), and r·d <= b·n, none from u on says more than
// d·((r·u + c)/(b·n) + 2) - u.
func (b Bursts) severalCollected(does, duration float64) float64 {
	rate, apart := float64(b.Items)/b.Gap, 0.0
	if does <= 0 || rate*duration > does*(1+slack) {
		return math.Inf(1)
	}
	next := make([]float64, len(b.Kinds)) // which j of each kind is next
	for i, k := range b.Kinds {
		apart += float64(k.Items) * (1 + k.Jitter/k.Gap)
		next[i] = math.Floor(k.Jitter/k.Gap) + 1
	}
	most, u := 0.0, 0.0
	for range mostSteps {
		most = max(most, duration*(math.Ceil(b.most(u)/does-slack)+1)-u)
		first := 0
		at := func(i int) float64 { return next[i]*b.Kinds[i].Gap - b.Kinds[i].Jitter }
		for i := range next {
			if at(i) < at(first) {
				first = i
			}
		}
		u = at(first)
		next[first]++
		if duration*((rate*u+apart)/does+2)-u <= most {
			return most
		}
	}
	return max(most, duration*((rate*u+apart)/does+2)-u)
}

// Shaped is how much longer windows must be than those that Test asks for where the stream
// is a fluid of its mean rate, so that batches may hold items of several bursts: an item stands for
// fluid that passes a shaper up to one gap after it came (Le Boudec and Thiran 2001, 1.5). It
// holds for fewer items and longer gaps, too.
func (b Bursts) Shaped() float64 {
	longest := b.Gap + b.Jitter
	for i, k := range b.Kinds { // each has a shaper
		if shaped := k.Shaped(); i == 0 || shaped > longest {
			longest = shaped
		}
	}
	return longest
}

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
// after the last of some bursts all of these must be done, and none was begun before the first, at which
// all sources send.
func (b Bursts) Cannot(latency float64, items func(time float64) float64) bool {
	const bursts = 8
	for j := range bursts {
		if after := float64(j) * b.Next(); items(latency+after) < float64(b.Came(after)) {
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
