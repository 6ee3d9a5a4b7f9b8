package shared

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// line is a ring of waiting requests, the one due first at the head; of
// requests due together, the first to come stands first. With one SLO for all
// that is the order of arrival. It grows and never shrinks.
type line struct {
	buf  []waiter // length is a power of two
	head int
	n    int
}

// waiter is what a pool keeps of a request.
type waiter struct {
	id   dispatch.RequestID
	due  dispatch.Time // deadline less what is kept
	kept dispatch.Time
}

func (q *line) at(i int) *waiter { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

// due is when the i-th request must be done.
func (q *line) due(i int) dispatch.Time { return q.buf[(q.head+i)&(len(q.buf)-1)].due }

// insert puts the request behind all that are due no later.
func (q *line) insert(w waiter) {
	if q.n == len(q.buf) {
		q.grow()
	}
	i := q.n
	q.n++
	for ; i > 0 && q.due(i-1) > w.due; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

func (q *line) grow() {
	buf := make([]waiter, max(16, 2*len(q.buf)))
	for i := range q.n {
		buf[i] = *q.at(i)
	}
	q.buf, q.head = buf, 0
}

// skip forgets the first k requests.
func (q *line) skip(k int) {
	q.head = (q.head + k) & (len(q.buf) - 1)
	q.n -= k
}

// find tells where the request stands, or -1. A due time other than zero is
// searched first.
func (q *line) find(id dispatch.RequestID, due dispatch.Time) int {
	if due != 0 {
		for i := q.first(due); i < q.n && q.due(i) == due; i++ {
			if q.at(i).id == id {
				return i
			}
		}
	}
	for i := range q.n {
		if q.at(i).id == id {
			return i
		}
	}
	return -1
}

// first is the place of the first request due at that time or later.
func (q *line) first(due dispatch.Time) int {
	low, high := 0, q.n
	for low < high {
		mid := (low + high) / 2
		if q.due(mid) < due {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// remove takes out the i-th request, moving the shorter side.
func (q *line) remove(i int) {
	if i < q.n/2 {
		for ; i > 0; i-- {
			*q.at(i) = *q.at(i - 1)
		}
		q.skip(1)
		return
	}
	for ; i < q.n-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.n--
}
