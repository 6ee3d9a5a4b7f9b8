package exact

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// pack puts the residual rates of modules onto shared devices: by falling size, into
// the open device where it uses least before a new one is opened; then emptying
// devices as long as their parts find room elsewhere, and trading devices for
// cheaper kinds. only, where it is not empty, is the kind that is opened as
// long as a part can run on it. ok is false when one fits nowhere.
// held are devices of others that are open already; those that nothing is put on
// are left out in the end.
func (s *packer) pack(parts []assignment, order []int, only string, held []bin) (bins []bin, ok bool) {
	bins = slices.Clone(held)
	for _, i := range order {
		if parts[i].residual == 0 {
			continue
		}
		if !s.insert(bins, parts, i, -1) {
			b, ok := s.open(bins, parts, i, only)
			if !ok {
				return nil, false
			}
			bins = append(bins, b)
		}
	}
	bins = slices.DeleteFunc(bins, func(b bin) bool { return len(b.parts) == 0 })
	bins = s.closeDevices(bins, parts)
	for i := range bins {
		s.useCheaperKind(bins, i, parts)
	}
	return bins, true
}

// bySize orders the modules whose residual rate costs most first.
func bySize(parts []assignment) []int {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(parts[b].size, parts[a].size) })
	return order
}

// insert puts a residual rate into the open device where it adds least; except is a
// device that is left out.
func (s *packer) insert(bins []bin, parts []assignment, i, except int) bool {
	at, best, least := -1, bin{}, math.Inf(1)
	for k := range bins {
		if k == except || bins[k].total() >= 1 {
			continue
		}
		b, ok := s.arranged(bins[k].kind, bins[k].held, with(bins[k].parts, i), parts)
		if ok && b.use-bins[k].use < least {
			at, best, least = k, b, b.use-bins[k].use
		}
	}
	if at < 0 {
		return false
	}
	bins[at] = best
	return true
}

// open starts a new device for a residual rate: the cheapest that can run it.
func (s *packer) open(bins []bin, parts []assignment, i int, only string) (best bin, ok bool) {
	for _, h := range s.kinds {
		if !s.exists(h, bins, parts) {
			continue
		}
		if ok && (best.kind.hardware == only || h.hardware != only && h.weight >= best.kind.weight) {
			continue
		}
		if b, fits := s.arranged(h, nil, []int{i}, parts); fits {
			best, ok = b, true
		}
	}
	return best, ok
}

// with is a sorted set of parts with one more.
func with(parts []int, i int) []int {
	at, _ := slices.BinarySearch(parts, i)
	return slices.Insert(slices.Clip(slices.Clone(parts)), at, i)
}

// arrangement is what arrange found for some parts on a device.
type arrangement struct {
	bin bin
	ok  bool
}

// arranged is arrange, looked up where the same parts were arranged before.
func (s *packer) arranged(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment) (bin, bool) {
	key := append(s.key[:0], byte(h.index))
	if held != nil {
		key = fmt.Appendf(key, "%p", held)
	}
	for _, i := range members {
		key = append(key, byte(i), byte(i>>8), byte(parts[i].by), byte(parts[i].by>>8))
	}
	s.key = key
	found, known := s.arrangements[string(key)]
	if !known {
		found.bin, found.ok = arrange(h, held, members, parts)
		for _, i := range members {
			s.work += mostDeadlines * len(parts[i].choices[h.index])
		}
		if s.arrangements != nil {
			s.arrangements[string(key)] = found
		}
	}
	return found.bin, found.ok
}

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
	low, high := time.Duration(0), time.Duration(math.MaxInt64)
	for _, i := range members {
		shortest := time.Duration(math.MaxInt64)
		for _, c := range parts[i].choices[h.index] {
			shortest = min(shortest, c.Duration)
		}
		if shortest == math.MaxInt64 {
			return best, false
		}
		low, high = plan.Saturate(low, shortest), min(high, parts[i].budget)
	}
	if low >= high {
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
	for _, due := range dues(h, members, parts, low, high) {
		if ok && best.use <= leastUse(h, members, parts, due) {
			break // nor do later ones
		}
		if takes := try(due, due); takes > 0 && takes != due { // where every part waits for these batches
			try(takes, takes)
		}
	}
	return best, ok
}

// dues are the deadlines that are tried: for one or two parts all sums of durations.
func dues(h sharedKind, members []int, parts []assignment, low, high time.Duration) (list []time.Duration) {
	if len(members) > 2 {
		deadline := float64(low)
		for range mostDeadlines {
			if deadline >= float64(high) {
				break
			}
			list = append(list, time.Duration(math.Ceil(deadline)))
			deadline *= deadlineStep
		}
		return list
	}
	list = append(list, 0)
	for _, i := range members {
		var sums []time.Duration
		for _, before := range list {
			for _, c := range parts[i].choices[h.index] {
				if sum := before + c.Duration; sum < high {
					sums = append(sums, sum)
				}
			}
		}
		list = sums
	}
	slices.Sort(list)
	return slices.Compact(list)
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

// closeDevices closes devices whose parts all fit elsewhere, least used first.
func (s *packer) closeDevices(bins []bin, parts []assignment) []bin {
	for {
		order := make([]int, len(bins))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bins[a].use, bins[b].use) })
		closed := false
		for _, k := range order {
			trial := slices.Clone(bins)
			all := true
			for _, i := range bins[k].parts {
				all = all && s.insert(trial, parts, i, k)
			}
			if all {
				bins, closed = slices.Delete(trial, k, k+1), true
				break
			}
		}
		if !closed {
			return bins
		}
	}
}

// useCheaperKind moves all parts of a device to a cheaper kind that can run them.
func (s *packer) useCheaperKind(bins []bin, at int, parts []assignment) {
	for _, h := range s.kinds {
		if bins[at].held == nil && plan.Cheaper(h.weight, bins[at].kind.weight) && s.exists(h, bins, parts) {
			if other, ok := s.arranged(h, nil, bins[at].parts, parts); ok {
				bins[at] = other
			}
		}
	}
}

// exists says whether there is one more device of a kind.
func (s *packer) exists(h sharedKind, bins []bin, parts []assignment) bool {
	return h.count == 0 || used(h, bins, parts)+1 <= float64(h.count)*(1+plan.RateTolerance)
}

// used is the number of devices of a kind in use, shared or not.
func used(h sharedKind, bins []bin, parts []assignment) float64 {
	n := 0.0
	for i := range parts {
		for k := range parts[i].dedicated {
			if t := &parts[i].dedicated[k]; t.Hardware == h.hardware {
				n += t.Charged()
			}
		}
	}
	for i := range bins {
		if bins[i].held == nil && bins[i].kind.hardware == h.hardware {
			n++
		}
	}
	return n
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
