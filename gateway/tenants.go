package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// mostDisplaced is how many requests one may take the place of, where it needs more than
// one of them does.
const mostDisplaced = 4

// Tenants are those of a gateway. The zero value has none yet; it is safe for concurrent
// use.
type Tenants struct {
	some   atomic.Bool
	mu     sync.Mutex               // also of the shares of all services and of the entries of requests
	limits map[string]*rate.Limiter // by token
}

// Service is what they share; see Init.
type Service struct {
	of       *Tenants
	underWay *atomic.Int64
	shares   admission.Shares
}

// Init begins a service, of which so many requests are under way at any time.
func (s *Service) Init(of *Tenants, underWay *atomic.Int64) { s.of, s.underWay = of, underWay }

// Admission is the gateway's own admission of one request.
type Admission struct {
	Now, Deadline dispatch.Time // no deadline is 0
	Soon          bool          // it is due sooner than the objective says
	Most          int64         // requests under way, this one among them

	// Fits takes the request in, if there is room beside a part of all that must be left;
	// the error says why there is not. underWay is the count to go by.
	Fits func(underWay, most int64, left float64) *wire.Error

	// Drop ends a request that makes room, the holder of an entry.
	Drop func(holder any)
}

// weightOf is the name and the weight of a tenant; nil is the one without a name.
func weightOf(t *wire.Tenant) (name string, weight float64) {
	switch {
	case t == nil:
		return "", 1
	case t.Weight == 0:
		return t.Name, 1
	}
	return t.Name, t.Weight
}

// Any says whether a named token has come yet.
func (s *Tenants) Any() bool { return s.some.Load() }

// Allow counts a request of a tenant, nil for none, against the rate that its token may
// send.
func (s *Tenants) Allow(t *wire.Tenant, now time.Time) *wire.Error {
	if t == nil {
		return nil
	}
	s.some.Store(true)
	if t.Rate == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[t.Name]
	if l == nil || l.Limit() != rate.Limit(t.Rate) {
		if s.limits == nil {
			s.limits = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(t.Rate), max(1, int(t.Rate))) // a second's worth at once
		s.limits[t.Name] = l
	}
	if !l.AllowN(now, 1) {
		return wire.Errorf(wire.CodeOverloaded, "", "token %q may send %g requests a second; send fewer, or have its rate raised in the file of --tokens", t.Name, t.Rate)
	}
	return nil
}

// TakeIn decides whether a request is taken in, for which others may have to make room;
// paid says that they have.
func (s *Service) TakeIn(t *wire.Tenant, underWay int64, a *Admission) (paid bool, err *wire.Error) {
	left, most := s.room(t, a)
	for tries := 0; ; tries++ {
		if err = a.Fits(underWay, most, left); err == nil {
			return paid, nil
		}
		if a.Deadline != 0 && a.Deadline <= a.Now || tries == mostDisplaced || !s.displace(t, a) {
			break
		}
		paid = true
		underWay-- // of one that is about to leave
	}
	if !a.Soon { // too little time is not for want of room
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.lost(t, a.Now)
	}
	return paid, err
}

// room is the part of it that a tenant must leave to others, and how many requests may be
// under way, one more of the tenant's among them.
func (s *Service) room(t *wire.Tenant, a *Admission) (left float64, most int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	name, weight := weightOf(t)
	left, full := s.shares.Room(a.Now, name, weight)
	if left > 0 {
		return left, int64(min(float64(a.Most), full) * (1 - left))
	}
	return 0, a.Most
}

// displace has a request make room for one of the tenant, if one should.
func (s *Service) displace(t *wire.Tenant, a *Admission) bool {
	s.of.mu.Lock()
	e := s.shares.Displace(weightOf(t))
	s.of.mu.Unlock()
	if e != nil {
		a.Drop(e.Holder)
	}
	return e != nil
}

// lost notes that a tenant has lost a request. The lock is held.
func (s *Service) lost(t *wire.Tenant, now dispatch.Time) {
	name, weight := weightOf(t)
	s.shares.Refused(now, name, weight, s.underWay.Load())
}

// Owed says whether another request would make room for one of the tenant.
func (s *Service) Owed(t *wire.Tenant) bool {
	if !s.of.Any() {
		return false
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.shares.Owed(weightOf(t))
}

// Enter counts a request that was taken in.
func (s *Service) Enter(t *wire.Tenant, e *admission.Entry, paid bool) {
	if !s.of.Any() {
		return
	}
	name, weight := weightOf(t)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.shares.Enter(name, weight, e, paid)
}

// Leave notes that a request is over; lost says that it was late or given up for want of
// room.
func (s *Service) Leave(t *wire.Tenant, e *admission.Entry, lost bool, now dispatch.Time) {
	if !s.of.Any() {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	e.Leave()
	if lost {
		s.lost(t, now)
	}
}

// Begun notes that a request runs: it makes no room for others any more.
func (s *Tenants) Begun(e *admission.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Leave()
}
