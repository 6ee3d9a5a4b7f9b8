package fleet

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/agenda"
)

// never is the instant that does not come.
const never = dispatch.Never

// Fleet keeps the executors of a pool. An executor is open when it may be sent
// a batch: it idles or, where the network has a delay, it will be free by the
// time that the batch is there.
type Fleet struct {
	Execs []Executor    // by ExecutorID
	Open  []bitset      // by group
	Ups   []int         // executors that are up, by group
	Opens int           // executors in all of open
	Up    int           // executors in all of ups
	Lead  dispatch.Time // how long before its end a running batch opens its executor
	Ends  agenda.Agenda // executors with work that are not open, by when they should open
	total dispatch.Time // sum of free over the executors in ends
}

// Executor is what is known of one.
type Executor struct {
	Up      bool
	Pending int8 // batches that were sent and have not ended: at most 2
	Group   int32
	Free    dispatch.Time // when it should have done all that was sent
}

// New makes a fleet without executors, of so many groups.
func New(groups int) Fleet {
	return Fleet{Open: make([]bitset, groups), Ups: make([]int, groups)}
}

// Has says whether the driver speaks of an executor that is up.
func (f *Fleet) Has(id dispatch.ExecutorID) bool {
	return id >= 0 && int(id) < len(f.Execs) && f.Execs[id].Up
}

// Join adds an idle executor; one of that name leaves first. A group that no
// model knows counts as the first.
func (f *Fleet) Join(id dispatch.ExecutorID, group int32, now dispatch.Time) {
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
		f.Execs = append(f.Execs, Executor{})
	}
	f.Ends.Reserve(len(f.Execs))
	f.Open[group].reserve(len(f.Execs))
	f.Execs[id] = Executor{Up: true, Group: group, Free: now}
	f.Ups[group]++
	f.Up++
	f.show(id)
}

// Leave takes an executor out.
func (f *Fleet) Leave(id dispatch.ExecutorID) {
	if !f.Has(id) {
		return
	}
	e := &f.Execs[id]
	f.hide(id)
	f.unset(id)
	f.Ups[e.Group]--
	f.Up--
	*e = Executor{}
}

// Freed notes that the executor has ended a batch.
func (f *Fleet) Freed(id dispatch.ExecutorID, now dispatch.Time) {
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
func (f *Fleet) Send(id dispatch.ExecutorID, done dispatch.Time) {
	e := &f.Execs[id]
	f.unset(id)
	e.Pending++
	e.Free = done
	f.settle(id)
}

// settle opens or closes the executor after a change of what it has to do.
func (f *Fleet) settle(id dispatch.ExecutorID) {
	e := &f.Execs[id]
	if e.Pending == 0 {
		f.show(id)
		return
	}
	f.hide(id)
	f.Ends.Set(int32(id), e.Free-f.Lead)
	f.total += e.Free
}

// unset takes the executor out of ends.
func (f *Fleet) unset(id dispatch.ExecutorID) {
	if f.Ends.Has(int32(id)) {
		f.Ends.Drop(int32(id))
		f.total -= f.Execs[id].Free
	}
}

// Work is the time until they are free, summed over the executors that are
// not open.
func (f *Fleet) Work(now dispatch.Time) float64 {
	return max(0, float64(f.total-dispatch.Time(f.Ends.Len())*now))
}

// Wake is when the next executor opens without an event; never where the
// network has no delay.
func (f *Fleet) Wake() dispatch.Time {
	if f.Lead == 0 {
		return never
	}
	return f.Ends.Next()
}

// Advance opens the executors whose batches should end within the lead. One
// that has two batches to do stays shut until the first has ended.
func (f *Fleet) Advance(now dispatch.Time) {
	if f.Lead == 0 {
		return
	}
	for f.Ends.Next() <= now {
		id := dispatch.ExecutorID(f.Ends.Top())
		f.unset(id)
		if f.Execs[id].Pending == 1 {
			f.show(id)
		}
	}
}

func (f *Fleet) show(id dispatch.ExecutorID) {
	b := &f.Open[f.Execs[id].Group]
	b.reserve(len(f.Execs))
	if !b.has(int32(id)) {
		b.add(int32(id))
		f.Opens++
	}
}

func (f *Fleet) hide(id dispatch.ExecutorID) {
	b := &f.Open[f.Execs[id].Group]
	b.reserve(len(f.Execs))
	if b.has(int32(id)) {
		b.remove(int32(id))
		f.Opens--
	}
}
