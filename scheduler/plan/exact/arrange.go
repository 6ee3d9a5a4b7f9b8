package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Deadlines that arrange tries.
const (
	deadlineStep  = 1.2 // from one deadline to the next
	mostDeadlines = 48
)

// arrange finds how parts can share a device of a kind so that they use least
// of it. All wait up to the same deadline where that is not longer than what
// their batches leave of their budgets; with equal deadlines the device serves
// batches in the order in which they are closed. Tried are deadlines from the
// sum of the shortest durations, where every part may have to wait for one
// batch of each other, up to the shortest budget (see dues). Under a deadline each
// part takes the configuration that uses least. Where their batches are too long to
// wait for each other, the choice is a knapsack of durations, and one part after the
// other takes shorter batches (see shorten); where one batch of each ends sooner or later
// than the deadline, that time is tried as one, too.
//
// The first deadlines do not depend on rates and budgets, so that more time or less load
// has the same to choose from and more. held, where it is not nil, is what others
// run on the device; the deadlines that matter beside it are tried, too.
func arrange(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment) (best bin, ok bool) {
	low, high, able := between(h, members, parts)
	if !able {
		return best, false
	}
	trial, spare := make([]option, 0, len(members)), make([]option, 0, len(members))
	try := func(due, longest time.Duration) (takes time.Duration) {
		b := bin{kind: h, held: held, parts: members, options: trial[:0]}
		if !b.all(parts, due, longest) {
			return 0
		}
		takes = b.takes(math.MaxInt64)
		for !ok || b.use < best.use { // shorter batches use no less
			if b.takes(due) <= due && b.fits() && b.sound() {
				best, ok = b, true
				trial, spare = spare, b.options
				break
			}
			if !b.shorten(parts, due) {
				break
			}
		}
		return takes
	}
	if held != nil {
		for _, d := range criticalDues(h, held, members, parts, low, high) {
			try(d.at, d.longest)
		}
	}
	for _, due := range dues(h, held, members, parts, low, high) {
		if ok && best.use <= leastUse(h, members, parts, due) {
			break // nor do later ones
		}
		if takes := try(due, due); takes > 0 && takes != due { // where every part waits for these batches
			try(takes, takes)
		}
	}
	return best, ok
}

// between is what deadlines lie between: the sum of the shortest durations, and the
// shortest budget; false where there is nothing between them.
func between(h sharedKind, members []int, parts []assignment) (low, high time.Duration, ok bool) {
	high = math.MaxInt64
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		if shortest == 0 {
			return 0, 0, false
		}
		low, high = plan.Saturate(low, shortest), min(high, parts[i].budget)
	}
	return low, high, low < high
}

// dues are the deadlines that are tried: all sums of durations where these are few, as for
// one or two parts on a device of their own, and otherwise a grid.
func dues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []time.Duration) {
	sums := 1
	for _, i := range members {
		if sums *= len(parts[i].choices[h.index]); sums > mostDeadlines || held != nil {
			return deadlines(low, high)
		}
	}
	list = append(list, 0)
	for _, i := range members {
		var longer []time.Duration
		for _, before := range list {
			for _, c := range parts[i].choices[h.index] {
				if sum := before + c.Duration; sum < high {
					longer = append(longer, sum)
				}
			}
		}
		list = longer
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// deadlines is the grid between two.
func deadlines(low, high time.Duration) (list []time.Duration) {
	for at := float64(low); len(list) < mostDeadlines && at < float64(high); at *= deadlineStep {
		list = append(list, time.Duration(math.Ceil(at)))
	}
	return list
}

// leastUse is what parts use of a device at the least when all wait up to a
// deadline.
func leastUse(h sharedKind, members []int, parts []assignment, due time.Duration) float64 {
	sum := 0.0
	for _, i := range members {
		least := math.Inf(1)
		for _, c := range parts[i].choices[h.index] {
			if period := min(c.filling, parts[i].rest.period(parts[i].budget-due)); period > 0 {
				least = math.Min(least, float64(c.Duration)/float64(period))
			}
		}
		sum += least
	}
	return sum
}

// all chooses an option for every part, with batches no longer than that.
func (b *bin) all(parts []assignment, deadline, longest time.Duration) bool {
	for _, i := range b.parts {
		w, ok := parts[i].option(b.kind.index, deadline, longest)
		if !ok || b.total()+w.use > 1+plan.RateTolerance {
			return false
		}
		b.options = append(b.options, w)
		b.use += w.use
	}
	return true
}

// fits says whether the device's memory holds all that runs on it.
func (b *bin) fits() bool {
	memory := int64(0)
	if b.held != nil {
		memory = b.held.Memory
	}
	for i := range b.options {
		memory += b.options[i].Memory
	}
	return b.kind.memory == 0 || memory <= b.kind.memory
}

// takes is how long one batch of each part takes, of those that must be done by a time.
func (b *bin) takes(by time.Duration) (sum time.Duration) {
	for i := range b.options {
		if w := &b.options[i]; w.deadline <= by {
			sum += w.Duration
		}
	}
	return sum
}

// shorten gives one part shorter batches: the one whose share of the device grows least for
// the time that others wait less; false where none can.
func (b *bin) shorten(parts []assignment, due time.Duration) bool {
	least, at, other := math.Inf(1), -1, option{}
	for k, i := range b.parts {
		is := &b.options[k]
		for n := range parts[i].choices[b.kind.index] {
			c := &parts[i].choices[b.kind.index][n]
			if c.Duration >= is.Duration {
				continue
			}
			if w, ok := parts[i].run(c, due); ok {
				if grows := (w.use - is.use) / float64(is.Duration-w.Duration); grows < least {
					least, at, other = grows, k, w
				}
			}
		}
	}
	if at < 0 {
		return false
	}
	b.use += other.use - b.options[at].use
	b.options[at] = other
	return b.total() <= 1+plan.RateTolerance
}

func (b *bin) sound() bool {
	var buffer [16]demand.Task
	tasks := buffer[:0]
	if b.held != nil {
		tasks = append(tasks, b.held.Demand()...)
	}
	for _, w := range b.options {
		tasks = append(tasks, demand.Task{Duration: w.Duration.Seconds(), Period: w.period.Seconds(), Deadline: w.deadline.Seconds()})
	}
	return demand.NonPreemptive(tasks).Sound
}

// waiting is a deadline that parts may wait up to, and the longest batch that they may
// have under it.
type waiting struct {
	at, longest time.Duration
}

// criticalDues are the critical deadlines of parts on a device that others use: for
// their shortest batches, and for one of them in each of its other configurations.
func criticalDues(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment, low, high time.Duration) (list []waiting) {
	for _, i := range members {
		shortest := shortestOf(parts[i].choices[h.index])
		for _, c := range parts[i].choices[h.index] {
			takes := low - shortest + c.Duration
			for _, seconds := range demand.Critical(held.Demand(), takes.Seconds(), high.Seconds()) {
				if at := plan.ToDuration(seconds); at < high {
					list = append(list, waiting{at, max(c.Duration, shortest)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return int(a.at - b.at) })
	return slices.Compact(list)
}
