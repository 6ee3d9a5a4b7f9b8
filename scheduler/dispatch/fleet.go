package dispatch

import "github.com/harpagon/harpagon/scheduler/dispatch/agenda"

// fleet keeps the executors of a pool. An executor is open when it may be sent
// a batch: it idles or, where the network has a delay, it will be free by the
// time that the batch is there.
type fleet struct {
	execs []poolExecutor // by ExecutorID
	open  []bitset       // by group
	ups   []int          // executors that are up, by group
	opens int            // executors in all of open
	up    int            // executors in all of ups
	lead  Time           // how long before its end a running batch opens its executor
	ends  agenda.Agenda  // executors with work that are not open, by when they should open
	total Time           // sum of free over the executors in ends
}

type poolExecutor struct {
	up      bool
	pending int8 // batches that were sent and have not ended: at most 2
	group   int32
	free    Time // when it should have done all that was sent
}

func newFleet(groups int) fleet {
	return fleet{open: make([]bitset, groups), ups: make([]int, groups)}
}

// has says whether the driver speaks of an executor that is up.
func (f *fleet) has(id ExecutorID) bool {
	return id >= 0 && int(id) < len(f.execs) && f.execs[id].up
}

// join adds an idle executor; one of that name leaves first. A group that no
// model knows counts as the first.
func (f *fleet) join(id ExecutorID, group int32, now Time) {
	if id < 0 {
		return
	}
	if f.has(id) {
		f.leave(id)
	}
	if group < 0 || int(group) >= len(f.open) {
		group = 0
	}
	for int(id) >= len(f.execs) {
		f.execs = append(f.execs, poolExecutor{})
	}
	f.ends.Reserve(len(f.execs))
	f.open[group].reserve(len(f.execs))
	f.execs[id] = poolExecutor{up: true, group: group, free: now}
	f.ups[group]++
	f.up++
	f.show(id)
}

func (f *fleet) leave(id ExecutorID) {
	if !f.has(id) {
		return
	}
	e := &f.execs[id]
	f.hide(id)
	f.unset(id)
	f.ups[e.group]--
	f.up--
	*e = poolExecutor{}
}

// freed notes that the executor has ended a batch.
func (f *fleet) freed(id ExecutorID, now Time) {
	if !f.has(id) || f.execs[id].pending == 0 {
		return
	}
	e := &f.execs[id]
	f.unset(id)
	e.pending--
	if e.pending == 0 {
		e.free = now
	}
	f.settle(id)
}

// send notes that a batch was sent which should be done at the given time.
func (f *fleet) send(id ExecutorID, done Time) {
	e := &f.execs[id]
	f.unset(id)
	e.pending++
	e.free = done
	f.settle(id)
}

// settle opens or closes the executor after a change of what it has to do.
func (f *fleet) settle(id ExecutorID) {
	e := &f.execs[id]
	if e.pending == 0 {
		f.show(id)
		return
	}
	f.hide(id)
	f.ends.Set(int32(id), e.free-f.lead)
	f.total += e.free
}

// unset takes the executor out of ends.
func (f *fleet) unset(id ExecutorID) {
	if f.ends.Has(int32(id)) {
		f.ends.Drop(int32(id))
		f.total -= f.execs[id].free
	}
}

// work is the time until they are free, summed over the executors that are
// not open.
func (f *fleet) work(now Time) float64 {
	return max(0, float64(f.total-Time(f.ends.Len())*now))
}

// wake is when the next executor opens without an event; never where the
// network has no delay.
func (f *fleet) wake() Time {
	if f.lead == 0 {
		return never
	}
	return f.ends.Next()
}

// advance opens the executors whose batches should end within the lead. One
// that has two batches to do stays shut until the first has ended.
func (f *fleet) advance(now Time) {
	if f.lead == 0 {
		return
	}
	for f.ends.Next() <= now {
		id := ExecutorID(f.ends.Top())
		f.unset(id)
		if f.execs[id].pending == 1 {
			f.show(id)
		}
	}
}

func (f *fleet) show(id ExecutorID) {
	b := &f.open[f.execs[id].group]
	b.reserve(len(f.execs))
	if !b.has(int32(id)) {
		b.add(int32(id))
		f.opens++
	}
}

func (f *fleet) hide(id ExecutorID) {
	b := &f.open[f.execs[id].group]
	b.reserve(len(f.execs))
	if b.has(int32(id)) {
		b.remove(int32(id))
		f.opens--
	}
}

// pick is the open executor of the lowest number in the lowest group, or -1:
// work stays on the first executors, so that the last ones can be spared.
func (f *fleet) pick() ExecutorID {
	for g := range f.open {
		if f.open[g].n > 0 {
			return ExecutorID(f.open[g].first())
		}
	}
	return -1
}
