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
	maxDates = 1 << 17
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
//
// All due dates move by as much as L does, so one walk over them finds it: at u
// before L the stream must have been there for what is due by then, which asks for
// due(u)/rate - u. Where that would take more than so many dates, L is what no later
// one can ask for, or +Inf where the first batches of all groups are not due yet.
func Least(rate float64, groups []Group, durations []float64) float64 {
	apart := make([]Group, len(groups))
	for i, g := range groups {
		g.Window = -durations[i]
		apart[i] = g
	}
	busy, v := normal(rate, apart)
	if v != nil {
		if v.Sound {
			return 0
		}
		return math.Inf(1)
	}
	later := laterDates(rate, busy)
	least, due, all := 0.0, 0.0, begin(busy)
	for range maxDates {
		u, batch := all.pop()
		if least >= later.ask(u) {
			return least
		}
		if later.endless && u > later.begun {
			break
		}
		due += batch / rate
		least = max(least, due-u)
	}
	u, _ := all.pop()
	return max(least, later.ask(u))
}

// later bounds what due dates from one on ask for.
type later struct {
	begun     float64 // when all groups have begun: before, nothing is known of later dates
	again     float64 // from then on dates ask for what earlier ones did
	use, rise float64 // see line
	endless   bool    // the stream is used up, and dates come as close to the line as you like
}

func laterDates(rate float64, groups []Group) later {
	l := later{begun: math.Inf(-1), again: math.Inf(1)}
	l.use, l.rise = line(rate, groups)
	for _, g := range groups {
		l.begun = max(l.begun, g.Window)
	}
	if l.use >= 1-slack {
		l.use, l.again = 1, l.begun+hyperperiod(groups)
		l.endless = math.IsInf(l.again, 1)
	}
	return l
}

func (l *later) ask(from float64) float64 {
	switch {
	case from <= l.begun:
		return math.Inf(1)
	case from > l.again:
		return 0
	}
	return l.rise - (1-l.use)*from
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

// line bounds demand from above, in seconds of the stream: once all groups have begun,
// at most use·t + rise is due by t, and as much only where all floors are exact.
func line(rate float64, groups []Group) (use, rise float64) {
	for _, g := range groups {
		use += g.Batch / g.Period / rate
		rise += (1 - g.Window/g.Period) * g.Batch / rate
	}
	return use, rise
}

// horizon is the time after which no due date needs checking.
func horizon(rate float64, groups []Group) float64 {
	use, rise := line(rate, groups)
	longest := 0.0
	for _, g := range groups {
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
	due, all := 0.0, begin(groups)
	for range maxDates {
		t, batch := all.pop()
		if t > horizon*(1+slack) {
			return Verdict{Sound: true}
		}
		due += batch / rate
		if due > t+slack*max(due, horizon) {
			return Verdict{At: t, Demand: due, Reason: fmt.Sprintf(
				"by %.6g s batches of %.6g requests are due, but only %.6g have come", t, due*rate, max(t, 0)*rate)}
		}
	}
	return Verdict{Reason: fmt.Sprintf("more than %d due dates would have to be checked", maxDates)}
}

// dates are the due dates of all groups, in their order.
type dates struct {
	groups         []Group
	next, released []float64
}

func begin(groups []Group) dates {
	d := dates{groups, make([]float64, len(groups)), make([]float64, len(groups))}
	for i, g := range groups {
		d.next[i] = g.Window
	}
	return d
}

// pop is the next due date, and how many requests are due then.
func (d *dates) pop() (at, batch float64) {
	first := 0
	for i := range d.next {
		if d.next[i] < d.next[first] {
			first = i
		}
	}
	at = d.next[first]
	d.released[first]++
	d.next[first] = d.groups[first].Window + d.released[first]*d.groups[first].Period
	return at, d.groups[first].Batch
}
