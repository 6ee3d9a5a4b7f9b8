package roundrobin

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// longestTurn bounds the requests that an executor may get before the next group has its turn.
const longestTurn = 1 << 20

// cycle says who gets the next request: the groups in their order, which is that of their
// throughput-cost ratio, each for as many requests as its executors can do while the slowest
// group runs one batch. What is left of a turn is added to the next (deficit round robin).
type cycle struct {
	groups []turn
	at     int // the group whose turn it is
}

// turn is a group's part of the cycle.
type turn struct {
	each   float64 // requests of one executor in a turn; at least its batch
	row    int     // requests in a row: one, or a batch
	credit float64 // requests that are left of the turn
	ups    []dispatch.ExecutorID
	next   int // of ups
	got    int // requests of the row that it has
}

func newCycle(groups []group, batches bool) cycle {
	c := cycle{at: len(groups) - 1}
	longest := dispatch.Time(1)
	for i := range groups {
		longest = max(longest, groups[i].full())
	}
	for i := range groups {
		g := &groups[i]
		t := turn{row: 1, each: min(longestTurn, float64(g.batch)*float64(longest)/float64(max(1, g.full())))}
		if batches {
			t.row = g.batch
		}
		t.each = max(t.each, float64(t.row))
		c.groups = append(c.groups, t)
	}
	return c
}

// pick is the executor that gets the next request; false where none is up.
func (c *cycle) pick() (dispatch.ExecutorID, bool) {
	for range len(c.groups) + 1 {
		if t := &c.groups[c.at]; len(t.ups) > 0 && (t.got > 0 || t.credit >= float64(t.row)) {
			return t.give(), true
		}
		c.at = (c.at + 1) % len(c.groups)
		t := &c.groups[c.at]
		t.credit = math.Mod(t.credit, float64(t.row)) + t.each*float64(len(t.ups))
	}
	return 0, false
}

// give names the executor whose row it is.
func (t *turn) give() dispatch.ExecutorID {
	id := t.ups[t.next]
	t.credit--
	if t.got++; t.got == t.row {
		t.got, t.next = 0, (t.next+1)%len(t.ups)
	}
	return id
}

// add enters an executor.
func (t *turn) add(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.ups, id)
	t.ups = slices.Insert(t.ups, at, id)
	if at <= t.next && len(t.ups) > 1 {
		t.next++
	}
}

// remove takes an executor out.
func (t *turn) remove(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.ups, id)
	t.ups = slices.Delete(t.ups, at, at+1)
	switch {
	case at < t.next:
		t.next--
	case at == t.next:
		t.got = 0
	}
	if t.next >= len(t.ups) {
		t.next = 0
	}
}
