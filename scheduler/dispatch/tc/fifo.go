package tc

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// fifo is a ring of requests in the order of their virtual arrivals; of equal
// ones, the first to come stands first. It grows and never shrinks.
type fifo struct {
	buf  []dispatch.Request // length is a power of two
	head int
	n    int

	// earliest is no later than any deadline in the ring. It may be the
	// deadline of a request that has left; the next look corrects it.
	earliest dispatch.Time
}

func (q *fifo) at(i int) *dispatch.Request {
	return &q.buf[(q.head+i)&(len(q.buf)-1)]
}

// insert puts the request in its place and returns its position.
func (q *fifo) insert(r dispatch.Request) int {
	if q.n == len(q.buf) {
		q.grow()
	}
	if q.n == 0 {
		q.earliest = never
	}
	if r.Deadline != 0 {
		q.earliest = min(q.earliest, r.Deadline)
	}
	i := q.n
	q.n++
	for ; i > 0 && q.at(i-1).Arrival > r.Arrival; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = r
	return i
}

func (q *fifo) grow() {
	buf := make([]dispatch.Request, max(16, 2*len(q.buf)))
	for i := range q.n {
		buf[i] = *q.at(i)
	}
	q.buf, q.head = buf, 0
}

// pop takes the first request; there must be one.
func (q *fifo) pop() dispatch.Request {
	r := *q.at(0)
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return r
}

// remove takes out the request of that name and returns where it stood, or -1.
func (q *fifo) remove(id dispatch.RequestID) int {
	for i := range q.n {
		if q.at(i).ID == id {
			q.removeAt(i)
			return i
		}
	}
	return -1
}

func (q *fifo) removeAt(i int) {
	for ; i < q.n-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.n--
}

// drain moves everything to the end of out.
func (q *fifo) drain(out []dispatch.Request) []dispatch.Request {
	for q.n > 0 {
		out = append(out, q.pop())
	}
	return out
}

// lateAt is the first instant at which some request may have become late, when
// running it takes need.
func (q *fifo) lateAt(need dispatch.Time) dispatch.Time {
	if q.n == 0 || q.earliest == never {
		return never
	}
	return q.earliest - need + 1
}

// takeLate moves every request that would be late if it started now and took need to
// the end of given. It lowers waiting for each, and closed for each that stood before it.
func (q *fifo) takeLate(now, need dispatch.Time, waiting, closed *int, given []dispatch.Request) []dispatch.Request {
	if now < q.lateAt(need) {
		return given
	}
	q.earliest = never
	kept := 0
	was := 0
	if closed != nil {
		was = *closed
	}
	for i, n := 0, q.n; i < n; i++ {
		r := *q.at(i)
		if late(&r, now, need) {
			given = append(given, r)
			*waiting--
			if i < was {
				*closed--
			}
			continue
		}
		if r.Deadline != 0 {
			q.earliest = min(q.earliest, r.Deadline)
		}
		*q.at(kept) = r
		kept++
	}
	q.n = kept
	return given
}

// late says whether the request would miss its deadline if it started now and
// took need.
func late(r *dispatch.Request, now, need dispatch.Time) bool {
	return r.Deadline != 0 && r.Deadline-need < now
}
