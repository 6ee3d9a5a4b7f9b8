package recording

import (
	"encoding/binary"
	"math"
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
)

// codec writes and reads steps. Instants are written as distances from the instant of their
// step, and request numbers as distances from the one before.
type codec struct {
	now  dispatch.Time
	last dispatch.RequestID
}

func zigzag(x int64) uint64   { return uint64(x<<1) ^ uint64(x>>63) }
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

func appendInt(b []byte, x int64) []byte { return binary.AppendUvarint(b, zigzag(x)) }

func (c *codec) appendTime(b []byte, t dispatch.Time) []byte { return appendInt(b, int64(t-c.now)) }

func (c *codec) appendID(b []byte, id dispatch.RequestID) []byte {
	b = appendInt(b, int64(id-c.last))
	c.last = id
	return b
}

// appendStep writes an event and its actions.
func (c *codec) appendStep(b []byte, now dispatch.Time, ev *dispatch.Event, actions []dispatch.Action) []byte {
	b = c.appendTime(b, now)
	c.now = now
	b = c.appendEvent(b, ev)
	b = binary.AppendUvarint(b, uint64(len(actions)))
	for i := range actions {
		b = c.appendAction(b, &actions[i])
	}
	return b
}

func bit(set bool, mask uint64) uint64 {
	if set {
		return mask
	}
	return 0
}

func (c *codec) appendEvent(b []byte, ev *dispatch.Event) []byte {
	mask := bit(ev.Request != dispatch.Request{}, hasRequest) | bit(ev.Executor != 0, hasExecutor) |
		bit(ev.Group != 0, hasGroup) | bit(ev.Alone, hasAlone) | bit(ev.More, hasMore) | bit(ev.Took != 0, hasTook) | bit(ev.At != 0, hasAt)
	b = append(b, byte(ev.Kind))
	b = binary.AppendUvarint(b, mask)
	if mask&hasRequest != 0 {
		b = c.appendRequest(b, &ev.Request)
	}
	if mask&hasExecutor != 0 {
		b = appendInt(b, int64(ev.Executor))
	}
	if mask&hasGroup != 0 {
		b = appendInt(b, int64(ev.Group))
	}
	if mask&hasTook != 0 {
		b = appendInt(b, int64(ev.Took))
	}
	if mask&hasAt != 0 {
		b = c.appendTime(b, ev.At)
	}
	return b
}

func (c *codec) appendRequest(b []byte, r *dispatch.Request) []byte {
	mask := bit(r.Class != 0, hasClass) | bit(r.Size != 0, hasBatch) | bit(r.Arrival != 0, hasAt) | bit(r.Deadline != 0, hasDue) | bit(r.End != 0, hasTook)
	b = c.appendID(b, r.ID)
	b = binary.AppendUvarint(b, mask)
	if mask&hasClass != 0 {
		b = appendInt(b, int64(r.Class))
	}
	if mask&hasBatch != 0 {
		b = appendInt(b, int64(r.Size))
	}
	for _, t := range [...]dispatch.Time{r.Arrival, r.Deadline, r.End} {
		if t != 0 {
			b = c.appendTime(b, t)
		}
	}
	return b
}

func (c *codec) appendAction(b []byte, a *dispatch.Action) []byte {
	mask := bit(a.Executor != 0, hasExecutor) | bit(a.Group != 0, hasGroup) | bit(a.Class != 0, hasClass) | bit(len(a.Batch) > 0, hasBatch) |
		bit(a.At != 0, hasAt) | bit(a.Due != 0, hasDue) | bit(a.Reason != 0, hasReason) | bit(a.Request != 0, hasID) | bit(a.Reservation != nil, hasReservation)
	b = append(b, byte(a.Act))
	b = binary.AppendUvarint(b, mask)
	if mask&hasReason != 0 {
		b = append(b, byte(a.Reason))
	}
	for _, n := range [...]int32{int32(a.Executor), a.Group, a.Class} {
		if n != 0 {
			b = appendInt(b, int64(n))
		}
	}
	if mask&hasBatch != 0 {
		b = binary.AppendUvarint(b, uint64(len(a.Batch)))
		for _, id := range a.Batch {
			b = c.appendID(b, id)
		}
	}
	for _, t := range [...]dispatch.Time{a.At, a.Due} {
		if t != 0 {
			b = c.appendTime(b, t)
		}
	}
	if mask&hasID != 0 {
		b = c.appendID(b, a.Request)
	}
	if r := a.Reservation; r != nil {
		for _, d := range [...]time.Duration{r.Duration, r.Period, r.Deadline, r.Window} {
			b = appendInt(b, int64(d))
		}
	}
	return b
}

// errMalformed is said of bytes that are no steps or no state, though their checksum is right.
const errMalformed = malformed("its content makes no sense")

type malformed string

func (m malformed) Error() string { return string(m) }

// reader takes values off bytes; the first that is not there is the error of all.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uint() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errMalformed
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *reader) int() int64 { return unzigzag(r.uint()) }

func (r *reader) int32() int32 {
	x := r.int()
	if x < math.MinInt32 || x > math.MaxInt32 {
		r.err = errMalformed
	}
	return int32(x)
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.err = errMalformed
		return 0
	}
	x := r.b[0]
	r.b = r.b[1:]
	return x
}

// count reads how many values follow, each of at least one byte.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errMalformed
		return 0
	}
	return int(n)
}

func (c *codec) time(r *reader) dispatch.Time { return c.now + time.Duration(r.int()) }

func (c *codec) id(r *reader) dispatch.RequestID {
	c.last += dispatch.RequestID(r.int())
	return c.last
}

// step reads what appendStep has written.
func (c *codec) step(r *reader) (s Step) {
	s.Now = c.time(r)
	c.now = s.Now
	s.Event = c.event(r)
	for range r.count() {
		s.Actions = append(s.Actions, c.action(r))
	}
	return s
}

func (c *codec) event(r *reader) (ev dispatch.Event) {
	ev.Kind = dispatch.Kind(r.byte())
	mask := r.uint()
	if mask&hasRequest != 0 {
		ev.Request = c.request(r)
	}
	if mask&hasExecutor != 0 {
		ev.Executor = dispatch.ExecutorID(r.int32())
	}
	if mask&hasGroup != 0 {
		ev.Group = r.int32()
	}
	ev.Alone, ev.More = mask&hasAlone != 0, mask&hasMore != 0
	if mask&hasTook != 0 {
		ev.Took = time.Duration(r.int())
	}
	if mask&hasAt != 0 {
		ev.At = c.time(r)
	}
	if ev.Kind < dispatch.Arrive || ev.Kind > dispatch.DeviceAlone || ev.Executor > mostExecutors || ev.Group > mostExecutors {
		r.err = errMalformed
	}
	return ev
}

// mostExecutors bounds the numbers of executors, groups and classes that are believed: policies
// keep tables of that length.
const mostExecutors = 1 << 20

func (c *codec) request(r *reader) (q dispatch.Request) {
	q.ID = c.id(r)
	mask := r.uint()
	if mask&hasClass != 0 {
		q.Class = r.int32()
	}
	if mask&hasBatch != 0 {
		q.Size = r.int32()
	}
	if mask&hasAt != 0 {
		q.Arrival = c.time(r)
	}
	if mask&hasDue != 0 {
		q.Deadline = c.time(r)
	}
	if mask&hasTook != 0 {
		q.End = c.time(r)
	}
	return q
}

func (c *codec) action(r *reader) (a dispatch.Action) {
	a.Act = dispatch.Act(r.byte())
	mask := r.uint()
	if mask&hasReason != 0 {
		a.Reason = dispatch.Reason(r.byte())
	}
	if mask&hasExecutor != 0 {
		a.Executor = dispatch.ExecutorID(r.int32())
	}
	if mask&hasGroup != 0 {
		a.Group = r.int32()
	}
	if mask&hasClass != 0 {
		a.Class = r.int32()
	}
	if mask&hasBatch != 0 {
		for range r.count() {
			a.Batch = append(a.Batch, c.id(r))
		}
	}
	if mask&hasAt != 0 {
		a.At = c.time(r)
	}
	if mask&hasDue != 0 {
		a.Due = c.time(r)
	}
	if mask&hasID != 0 {
		a.Request = c.id(r)
	}
	if mask&hasReservation != 0 {
		a.Reservation = &dispatch.Reservation{Duration: time.Duration(r.int()), Period: time.Duration(r.int()), Deadline: time.Duration(r.int()), Window: time.Duration(r.int())}
	}
	return a
}
