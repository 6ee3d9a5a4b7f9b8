package recording

import (
	"encoding/binary"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Step is one event of a policy and the actions that it answered with.
type Step struct {
	Now     dispatch.Time
	Event   dispatch.Event
	Actions []dispatch.Action
}

// Which fields of an event or action follow: those that are not zero.
const (
	hasRequest = 1 << iota
	hasExecutor
	hasGroup
	hasClass
	hasAlone
	hasTook
	hasAt
	hasBatch
	hasDue
	hasReason
	hasReservation
	hasID
	hasMore
	hasAtOnce
)

// codec writes steps, or reads them: the same fields in the same order. Instants are written as
// distances from the instant of their step, and request numbers as distances from the one before.
type codec struct {
	b       []byte // written so far, or left to be read
	reading bool
	err     error // the first thing that could not be read
	now     dispatch.Time
	last    dispatch.RequestID
}

// errMalformed reports bytes that are no steps though their checksum is right.
const errMalformed = malformed("its content makes no sense")

type malformed string

func (m malformed) Error() string { return string(m) }

// mostExecutors bounds the numbers of executors, groups and classes that are believed: policies
// keep tables of that length.
const mostExecutors = 1 << 20

func (c *codec) fail() { c.b, c.err = nil, errMalformed }

func (c *codec) uint(x uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, x)
		return x
	}
	x, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return x
}

func (c *codec) int(x int64) int64 {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, x)
		return x
	}
	x, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return x
}

// count is how many values follow, each of at least one byte.
func (c *codec) count(n int) int {
	x := c.uint(uint64(n))
	if c.reading && x > uint64(len(c.b)) {
		c.fail()
		return 0
	}
	return int(x)
}

func number[T ~int32 | ~int64](c *codec, x *T) {
	if n := c.int(int64(*x)); c.reading {
		if *x = T(n); int64(*x) != n {
			c.fail()
		}
	}
}

func letter[T ~uint8](c *codec, x *T) {
	switch {
	case !c.reading:
		c.b = append(c.b, byte(*x))
	case len(c.b) == 0:
		c.fail()
	default:
		*x, c.b = T(c.b[0]), c.b[1:]
	}
}

func (c *codec) time(t *dispatch.Time) {
	if n := time.Duration(c.int(int64(*t - c.now))); c.reading {
		*t = c.now + n
	}
}

func (c *codec) id(id *dispatch.RequestID) {
	c.last += dispatch.RequestID(c.int(int64(*id - c.last)))
	if c.reading {
		*id = c.last
	}
}

func bit(set bool, mask uint64) uint64 {
	if set {
		return mask
	}
	return 0
}

// step writes an event and its actions, or reads them.
func (c *codec) step(s *Step) {
	c.time(&s.Now)
	c.now = s.Now
	c.event(&s.Event)
	if n := c.count(len(s.Actions)); c.reading {
		s.Actions = make([]dispatch.Action, n)
	}
	for i := range s.Actions {
		c.action(&s.Actions[i])
	}
}

func (c *codec) event(ev *dispatch.Event) {
	letter(c, &ev.Kind)
	mask := c.uint(bit(ev.Request != dispatch.Request{}, hasRequest) | bit(ev.Executor != 0, hasExecutor) |
		bit(ev.Group != 0, hasGroup) | bit(ev.Alone, hasAlone) | bit(ev.More, hasMore) | bit(ev.Took != 0, hasTook) | bit(ev.At != 0, hasAt))
	if mask&hasRequest != 0 {
		c.request(&ev.Request)
	}
	if mask&hasExecutor != 0 {
		number(c, &ev.Executor)
	}
	if mask&hasGroup != 0 {
		number(c, &ev.Group)
	}
	ev.Alone, ev.More = mask&hasAlone != 0, mask&hasMore != 0
	if mask&hasTook != 0 {
		number(c, &ev.Took)
	}
	if mask&hasAt != 0 {
		c.time(&ev.At)
	}
	if c.reading && (ev.Kind < dispatch.Arrive || ev.Kind > dispatch.DeviceAlone || ev.Executor > mostExecutors || ev.Group > mostExecutors) {
		c.fail()
	}
}

func (c *codec) request(r *dispatch.Request) {
	c.id(&r.ID)
	mask := c.uint(bit(r.Class != 0, hasClass) | bit(r.Size != 0, hasBatch) | bit(r.Arrival != 0, hasAt) | bit(r.Deadline != 0, hasDue) | bit(r.End != 0, hasTook))
	if mask&hasClass != 0 {
		number(c, &r.Class)
	}
	if mask&hasBatch != 0 {
		number(c, &r.Size)
	}
	if mask&hasAt != 0 {
		c.time(&r.Arrival)
	}
	if mask&hasDue != 0 {
		c.time(&r.Deadline)
	}
	if mask&hasTook != 0 {
		c.time(&r.End)
	}
}

func (c *codec) action(a *dispatch.Action) {
	letter(c, &a.Act)
	mask := c.uint(bit(a.Executor != 0, hasExecutor) | bit(a.Group != 0, hasGroup) | bit(a.Class != 0, hasClass) | bit(len(a.Batch) > 0, hasBatch) |
		bit(a.At != 0, hasAt) | bit(a.Due != 0, hasDue) | bit(a.Reason != 0, hasReason) | bit(a.Request != 0, hasID) | bit(a.Reservation != nil, hasReservation) |
		bit(a.Reservation != nil && a.Reservation.AtOnce != 0, hasAtOnce))
	if mask&hasReason != 0 {
		letter(c, &a.Reason)
	}
	if mask&hasExecutor != 0 {
		number(c, &a.Executor)
	}
	if mask&hasGroup != 0 {
		number(c, &a.Group)
	}
	if mask&hasClass != 0 {
		number(c, &a.Class)
	}
	if mask&hasBatch != 0 {
		if n := c.count(len(a.Batch)); c.reading {
			a.Batch = make([]dispatch.RequestID, n)
		}
		for i := range a.Batch {
			c.id(&a.Batch[i])
		}
	}
	if mask&hasAt != 0 {
		c.time(&a.At)
	}
	if mask&hasDue != 0 {
		c.time(&a.Due)
	}
	if mask&hasID != 0 {
		c.id(&a.Request)
	}
	if mask&hasReservation != 0 {
		if c.reading {
			a.Reservation = &dispatch.Reservation{}
		}
		for _, d := range [...]*time.Duration{&a.Reservation.Duration, &a.Reservation.Period, &a.Reservation.Deadline, &a.Reservation.Window} {
			number(c, d)
		}
	}
	if mask&hasAtOnce != 0 && a.Reservation != nil {
		number(c, &a.Reservation.AtOnce)
	}
}
