package functions

import "github.com/harpagon/harpagon/scheduler/dispatch"

// event is the end of a batch (executor) or an arrival (executor -1, class).
type event struct {
	at       dispatch.Time
	executor int
	class    int32
}

// events is a heap by time; what ends goes before what begins.
type events []event

// Len is the number of events.
func (e events) Len() int { return len(e) }

// Less orders by time.
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	if (e[i].executor >= 0) != (e[j].executor >= 0) {
		return e[i].executor >= 0
	}
	return e[i].executor < e[j].executor || e[i].executor == e[j].executor && e[i].class < e[j].class
}

// Swap is for the heap.
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push is for the heap.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop is for the heap.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
