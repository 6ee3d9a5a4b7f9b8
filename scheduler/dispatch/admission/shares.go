package admission

import (
	"math"
	"time"
)

// burst is how many requests a caller may be ahead of its share of what is taken in: a
// caller that has asked for less than its share is owed no more than these.
const burst = 32

// How much room is kept for callers below their shares: so much more each time that one
// of them is turned away or given up, up to a most, and half of it after a while without, until
// so little is left that nothing is kept. How many requests under way are all room is learned from
// these, too.
const (
	fullStep  = 1.0 / 8
	roomStep  = 1.0 / 16
	roomMost  = 0.5
	roomLeast = roomStep / 4
	roomHalf  = 5 * time.Second
)

// Shares divides what a service takes in among its callers, by their weights. While
// there is room for all, everybody is taken in. A request for which there is none takes
// the place of one that has not begun, of the caller that is furthest above its share:
// so a caller that sends too much loses requests of its own, and nobody else's. Where all
// have begun nobody can make room, so some of it is kept free of callers above their
// shares, as much as lately would have been needed.
//
// The account of a caller grows by 1/weight with each of its requests that is taken in,
// and by nothing for one that has to make room: with accounts that grow alike, each
// caller gets its weighted max-min share. One that has been idle is brought forward to
// burst requests behind the highest account of what has begun, as with the start tags of
// start-time fair queueing (Goyal, Vin and Cheng, 1996); who makes room is chosen as in longest queue
// drop (Suter, Lakshman, Stiliadis and Choudhury, 1999), by accounts in place of queues,
// since a caller that gives its requests less time has short queues.
//
// It is a plain value for drivers to hold; one call at a time.
type Shares struct {
	callers map[string]*caller
	under   int64   // requests under way
	begun   float64 // highest account of requests that have begun
	room    float64 // part of all that was kept free at that time
	at      Time
	full    float64 // requests under way when callers below their shares lost some
}

// caller is one of those that share.
type caller struct {
	shares  *Shares
	weight  float64
	account float64
	count   int   // of those that wait
	under   int64 // requests under way, those that wait among them
	waiting Entry // ring of the requests that have not begun, oldest first
}

// Entry is a request that was taken in. Its Holder is the driver's.
type Entry struct {
	Holder     any
	of         *caller
	prev, next *Entry
}

// of is a caller by name, with the weight that it has now.
func (s *Shares) of(name string, weight float64) *caller {
	c := s.callers[name]
	if c == nil {
		if s.callers == nil {
			s.callers = make(map[string]*caller)
		}
		c = &caller{shares: s}
		c.waiting.prev, c.waiting.next = &c.waiting, &c.waiting
		s.callers[name] = c
	}
	c.weight = weight
	c.account = max(c.account, s.begun-burst/weight)
	return c
}

// Enter counts a request in that was taken in; paid says that others have made room for
// it. The weight is above 0.
func (s *Shares) Enter(name string, weight float64, e *Entry, paid bool) {
	c := s.of(name, weight)
	if !paid {
		c.account += 1 / c.weight
	}
	c.count++
	c.under++
	s.under++
	e.of, e.prev, e.next = c, c.waiting.prev, &c.waiting
	e.prev.next, e.next.prev = e, e
}

// Leave notes that a request has begun or ended: it makes no room any more. To leave
// twice, or without having entered, changes nothing.
func (e *Entry) Leave() {
	if e.next == nil {
		return
	}
	e.unlink()
	s := e.of.shares
	s.begun = max(s.begun, e.of.account-float64(e.of.count)/e.of.weight)
}

// End notes that a request has ended. To end twice, or without having entered, changes nothing.
func (e *Entry) End() {
	e.Leave()
	if e.of != nil {
		e.of.under--
		e.of.shares.under--
		e.of = nil
	}
}

func (e *Entry) unlink() {
	e.of.count--
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// Displace is asked for a caller's request that there is no room for. It gives the
// request that must make room and forgets it: the newest of the caller that is furthest
// above its share. It is nil where that would be unfair: the new request is to be
// refused then. The caller pays for the room whether or not its request is taken in, so
// that requests which can never be do not keep others out.
func (s *Shares) Displace(name string, weight float64) *Entry {
	c := s.of(name, weight)
	from := s.above(c.account + 1/weight)
	if from == nil {
		return nil
	}
	c.account += 1 / weight
	from.account -= 1 / from.weight
	e := from.waiting.prev
	e.unlink()
	return e
}

// Below reports whether a caller is clearly below its share: owed half a burst or more.
func (s *Shares) Below(name string, weight float64) bool {
	return s.of(name, weight).account+burst/2/weight <= s.begun
}

// Room is the part of all room, from 0 to 1, that the caller must leave to others, and how
// many requests under way are all room, as far as is known. Where it is 0 nothing need be
// left.
func (s *Shares) Room(now Time, name string, weight float64) (left, full float64) {
	if s.room == 0 || s.Below(name, weight) {
		return 0, 0
	}
	return s.kept(now), s.full
}

func (s *Shares) kept(now Time) float64 {
	kept := s.room * math.Exp2(-float64(now-s.at)/float64(roomHalf))
	if kept < roomLeast {
		s.room, s.full = 0, 0
		return 0
	}
	return kept
}

// Refused notes that a caller's request was turned away, or given up later, while so many
// were under way. Where none was another's, it was not for lack of room that others had.
func (s *Shares) Refused(now Time, name string, weight float64, underWay int64) {
	if !s.Below(name, weight) || s.under == s.of(name, weight).under {
		return
	}
	s.room, s.at = min(roomMost, s.kept(now)+roomStep), now
	if s.full == 0 {
		s.full = float64(underWay)
	}
	s.full += (float64(underWay) - s.full) * fullStep
}

// Owed reports whether Displace would make room.
func (s *Shares) Owed(name string, weight float64) bool {
	return s.above(s.of(name, weight).account+1/weight) != nil
}

// above is the caller with the highest account of those that can make room and are at
// the account even then; nil for none.
func (s *Shares) above(account float64) (from *caller) {
	for _, c := range s.callers {
		if c.count > 0 && c.account-1/c.weight >= account && (from == nil || c.account > from.account) {
			from = c
		}
	}
	return from
}
