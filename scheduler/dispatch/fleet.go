package dispatch

import "math/bits"

// never is the instant that does not come.
const never = Never

// Fleet keeps the executors of a pool. An executor is open when it may be sent
// a batch: it idles or, where the network has a delay, it will be free by the
// time that the batch is there.
type Fleet struct {
	Execs []FleetExecutor // by ExecutorID
	Open  []bitset        // by group
	Ups   []int           // executors that are up, by group
	Opens int             // executors in all of open
	Up    int             // executors in all of ups
	Lead  Time            // how long before its end a running batch opens its executor
	Ends  Agenda          // executors with work that are not open, by when they should open
}

// FleetExecutor is what is known of one.
type FleetExecutor struct {
	Up      bool
	Pending int8 // batches that were sent and have not ended: at most 2
	Group   int32
	Free    Time // when it should have done all that was sent
}

// NewFleet makes a fleet without executors, of so many groups.
func NewFleet(groups int) Fleet {
	return Fleet{Open: make([]bitset, groups), Ups: make([]int, groups)}
}

// Has reports whether the executor exists and is up.
func (f *Fleet) Has(id ExecutorID) bool {
	return id >= 0 && int(id) < len(f.Execs) && f.Execs[id].Up
}

// Join adds an idle executor; one of that name leaves first. An unknown group counts as the
// first.
func (f *Fleet) Join(id ExecutorID, group int32, now Time) {
	if id < 0 {
		return
	}
	if f.Has(id) {
		f.Leave(id)
	}
	if group < 0 || int(group) >= len(f.Open) {
		group = 0
	}
	for int(id) >= len(f.Execs) {
		f.Execs = append(f.Execs, FleetExecutor{})
	}
	f.Ends.Reserve(len(f.Execs))
	f.Open[group].reserve(len(f.Execs))
	f.Execs[id] = FleetExecutor{Up: true, Group: group, Free: now}
	f.Ups[group]++
	f.Up++
	f.show(id)
}

// Leave takes an executor out.
func (f *Fleet) Leave(id ExecutorID) {
	if !f.Has(id) {
		return
	}
	e := &f.Execs[id]
	f.hide(id)
	f.unset(id)
	f.Ups[e.Group]--
	f.Up--
	*e = FleetExecutor{}
}

// Freed notes that the executor has ended a batch.
func (f *Fleet) Freed(id ExecutorID, now Time) {
	if !f.Has(id) || f.Execs[id].Pending == 0 {
		return
	}
	e := &f.Execs[id]
	f.unset(id)
	e.Pending--
	if e.Pending == 0 {
		e.Free = now
	}
	f.settle(id)
}

// Send notes that a batch was sent which should be done at the given time.
func (f *Fleet) Send(id ExecutorID, done Time) {
	e := &f.Execs[id]
	f.unset(id)
	e.Pending++
	e.Free = done
	f.settle(id)
}

// settle opens or closes the executor after a change of what it has to do.
func (f *Fleet) settle(id ExecutorID) {
	e := &f.Execs[id]
	if e.Pending == 0 {
		f.show(id)
		return
	}
	f.hide(id)
	f.Ends.Set(int32(id), e.Free-f.Lead)
}

// unset takes the executor out of ends.
func (f *Fleet) unset(id ExecutorID) {
	if f.Ends.Has(int32(id)) {
		f.Ends.Drop(int32(id))
	}
}

// Wake is when the next executor opens without an event; never where the
// network has no delay.
func (f *Fleet) Wake() Time {
	if f.Lead == 0 {
		return never
	}
	return f.Ends.Next()
}

// Advance opens the executors whose batches should end within the lead. One
// that has two batches to do stays shut until the first has ended.
func (f *Fleet) Advance(now Time) {
	if f.Lead == 0 {
		return
	}
	for f.Ends.Next() <= now {
		id := ExecutorID(f.Ends.Top())
		f.unset(id)
		if f.Execs[id].Pending == 1 {
			f.show(id)
		}
	}
}

func (f *Fleet) show(id ExecutorID) {
	b := &f.Open[f.Execs[id].Group]
	b.reserve(len(f.Execs))
	if !b.has(int32(id)) {
		b.add(int32(id))
		f.Opens++
	}
}

func (f *Fleet) hide(id ExecutorID) {
	b := &f.Open[f.Execs[id].Group]
	b.reserve(len(f.Execs))
	if b.has(int32(id)) {
		b.remove(int32(id))
		f.Opens--
	}
}

// bitset is a set of small whole numbers in two levels, so that the smallest
// is found by looking at a word per 4,096 numbers.
type bitset struct {
	Low  []uint64 // one bit a number
	High []uint64 // one bit a word of low that is not zero
	N    int
}

// reserve makes room for numbers below keys.
func (s *bitset) reserve(keys int) {
	for len(s.Low)*64 < keys {
		s.Low = append(s.Low, 0)
	}
	for len(s.High)*64 < len(s.Low) {
		s.High = append(s.High, 0)
	}
}

func (s *bitset) has(i int32) bool { return s.Low[i>>6]&(1<<(i&63)) != 0 }

func (s *bitset) add(i int32) {
	if s.has(i) {
		return
	}
	s.Low[i>>6] |= 1 << (i & 63)
	s.High[i>>12] |= 1 << (i >> 6 & 63)
	s.N++
}

func (s *bitset) remove(i int32) {
	if !s.has(i) {
		return
	}
	s.Low[i>>6] &^= 1 << (i & 63)
	if s.Low[i>>6] == 0 {
		s.High[i>>12] &^= 1 << (i >> 6 & 63)
	}
	s.N--
}

// All yields the numbers in the set, rising. It must not change meanwhile.
func (s *bitset) All(yield func(int32) bool) {
	for l, word := range s.Low {
		for ; word != 0; word &= word - 1 {
			if !yield(int32(l<<6 | bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// First is the smallest number in the set, or -1.
func (s *bitset) First() int32 {
	for h, word := range s.High {
		if word != 0 {
			l := h<<6 | bits.TrailingZeros64(word)
			return int32(l<<6 | bits.TrailingZeros64(s.Low[l]))
		}
	}
	return -1
}
