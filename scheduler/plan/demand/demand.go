package demand

import (
	"fmt"
	"math"
)

// Tolerances and bounds.
const (
	// slack is the relative error up to which two times or rates are equal.
	slack = 1e-9
	// maxDates bounds the due dates that one test looks at; a test that needs
	// more is not a proof and fails.
	maxDates = 1 << 20
	// maxCycles bounds the search for a common multiple of the periods, counted
	// in periods of the first group.
	maxCycles = 4096
)

// Group is one group of machines as the stream sees it. Times are in seconds.
type Group struct {
	Batch  float64 // requests that one batch collects
	Period float64 // between the starts of two batches
	Window float64 // from a batch's release to its due date
}

// Verdict of a test.
type Verdict struct {
	Sound  bool
	At     float64 // first due date that cannot be met, seconds; 0 when sound
	Demand float64 // seconds of the stream that are due by then
	Reason string  // empty when sound
}

// Describe says the verdict in one line.
func (v Verdict) Describe() string {
	if v.Sound {
		return "sound: every batch can be collected within its window"
	}
	return "not sound: " + v.Reason
}

// Test decides whether a stream of rate requests per second, evenly paced,
// fills every batch of the groups within its window. Groups without requests
// are passed over. The answer is exact up to the package's tolerance, and a
// refusal where exactness would need too many due dates.
func Test(rate float64, groups []Group) Verdict {
	groups, v := normal(rate, groups)
	if v != nil {
		return *v
	}
	horizon := horizon(rate, groups)
	if math.IsInf(horizon, 1) {
		return Verdict{Reason: "windows are too short on average: due batches fall behind the stream without bound"}
	}
	return walk(rate, groups, horizon)
}

// Least is the smallest latency L, in seconds, such that the windows
// L - durations[i] pass the test: the proven worst case of a module whose
// groups all promise the same. It is +Inf when no L does.
func Least(rate float64, groups []Group, durations []float64) float64 {
	sound := func(latency float64) bool {
		trial := make([]Group, len(groups))
		for i, g := range groups {
			g.Window = latency - durations[i]
			trial[i] = g
		}
		return Test(rate, trial).Sound
	}
	low, high := 0.0, 0.0
	for i, g := range groups {
		if g.Batch > 0 {
			low = max(low, durations[i])
			high = max(high, durations[i]+g.Period)
		}
	}
	if high == 0 {
		return 0
	}
	// With every window as long as the longest period, demand never exceeds
	// supply unless the groups take more than the stream gives.
	longest := high - low
	for tries := 0; !sound(high); tries++ {
		if tries == 60 {
			return math.Inf(1)
		}
		high += longest
		longest *= 2
	}
	for high-low > slack*high {
		if mid := (low + high) / 2; sound(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// normal drops idle groups and settles what needs no walk.
func normal(rate float64, groups []Group) ([]Group, *Verdict) {
	var busy []Group
	load := 0.0
	for _, g := range groups {
		if !(g.Batch >= 0) || math.IsInf(g.Batch, 0) || math.IsNaN(g.Period) || math.IsNaN(g.Window) {
			return nil, &Verdict{Reason: fmt.Sprintf("batch %v, period %v and window %v are not numbers to test", g.Batch, g.Period, g.Window)}
		}
		if g.Batch == 0 || math.IsInf(g.Period, 1) {
			continue
		}
		if g.Period <= 0 {
			return nil, &Verdict{Reason: fmt.Sprintf("a period of %v s starts batches without end", g.Period)}
		}
		busy = append(busy, g)
		load += g.Batch / g.Period
	}
	if len(busy) == 0 {
		return nil, &Verdict{Sound: true}
	}
	if !(rate > 0) || load > rate*(1+slack) {
		return nil, &Verdict{Reason: fmt.Sprintf("the groups collect %.6g requests per second of a stream of %.6g", load, rate)}
	}
	return busy, nil
}

// horizon is the time after which no due date needs checking.
func horizon(rate float64, groups []Group) float64 {
	// Without its floors the demand at t is at most use·t + rise, and equals
	// that only where all floors are exact.
	use, rise, longest := 0.0, 0.0, 0.0
	for _, g := range groups {
		use += g.Batch / g.Period / rate
		rise += (1 - g.Window/g.Period) * g.Batch / rate
		longest = max(longest, g.Window)
	}
	if rise <= slack*longest {
		return longest
	}
	if use < 1-slack {
		return max(longest, rise/(1-use))
	}
	// The stream is fully used: demand repeats with the periods' common
	// multiple, and without one it comes as close to its bound as you like.
	return longest + hyperperiod(groups)
}

// hyperperiod is the least common multiple of the periods, +Inf when there is
// none within maxCycles.
func hyperperiod(groups []Group) float64 {
	for k := 1; k <= maxCycles; k++ {
		h := float64(k) * groups[0].Period
		fits := true
		for _, g := range groups[1:] {
			n := math.Round(h / g.Period)
			if n < 1 || math.Abs(n*g.Period-h) > slack*h {
				fits = false
				break
			}
		}
		if fits {
			return h
		}
	}
	return math.Inf(1)
}

// walk compares demand with supply at every due date up to the horizon.
func walk(rate float64, groups []Group, horizon float64) Verdict {
	next := make([]float64, len(groups))
	released := make([]float64, len(groups))
	for i, g := range groups {
		next[i] = g.Window
	}
	due := 0.0
	for range maxDates {
		first := 0
		for i := range next {
			if next[i] < next[first] {
				first = i
			}
		}
		t := next[first]
		if t > horizon*(1+slack) {
			return Verdict{Sound: true}
		}
		due += groups[first].Batch / rate
		released[first]++
		next[first] = groups[first].Window + released[first]*groups[first].Period
		if due > t+slack*max(due, horizon) {
			return Verdict{At: t, Demand: due, Reason: fmt.Sprintf(
				"by %.6g s batches of %.6g requests are due, but only %.6g have come", t, due*rate, max(t, 0)*rate)}
		}
	}
	return Verdict{Reason: fmt.Sprintf("more than %d due dates would have to be checked", maxDates)}
}
