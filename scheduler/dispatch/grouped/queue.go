package grouped

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// patient is what a group keeps of a waiting request.
type patient struct {
	id    dispatch.RequestID
	leave dispatch.Time // when its timeout passes
	last  dispatch.Time // the latest start that meets its deadline; never where it has none
}

// patients is a ring of requests in the order in which their timeouts pass; of
// those that pass together, the first to come stands first. It grows and never
// shrinks.
type patients struct {
	buf  []patient // length is a power of two
	head int
	n    int
}

func (q *patients) at(i int) *patient { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

// insert puts the request behind all whose timeouts pass no later.
func (q *patients) insert(w patient) {
	if q.n == len(q.buf) {
		buf := make([]patient, max(16, 2*len(q.buf)))
		for i := range q.n {
			buf[i] = *q.at(i)
		}
		q.buf, q.head = buf, 0
	}
	i := q.n
	q.n++
	for ; i > 0 && q.at(i-1).leave > w.leave; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

// pop takes the first request; there must be one.
func (q *patients) pop() patient {
	w := *q.at(0)
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return w
}

// remove takes out the request of that name and says whether it was there.
func (q *patients) remove(id dispatch.RequestID) bool {
	for i := range q.n {
		if q.at(i).id != id {
			continue
		}
		for ; i < q.n-1; i++ {
			*q.at(i) = *q.at(i + 1)
		}
		q.n--
		return true
	}
	return false
}

// Describe draws the policy: one line a group.
func (p *grouped) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grouped: %d waiting\n", p.waiting)
	for i := range p.groups {
		g := &p.groups[i]
		fmt.Fprintf(&b, "  group %d (batch %d): %d of %d executors idle, %d wait",
			i, g.batch, p.fleet.Open[i].N, p.fleet.Ups[i], g.queue.n)
		if g.queue.n > 0 {
			fmt.Fprintf(&b, ", the first until %v", g.queue.at(0).leave)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
