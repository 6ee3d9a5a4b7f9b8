package gateway

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// streams are those of one pipeline that are open at this gateway.
type streams struct {
	mu      sync.Mutex
	of      admission.Streams
	unnamed atomic.Int64
}

// heldFrame is a frame that waits for its time, or for another in its place.
type heldFrame struct{ dropped chan struct{} }

// entry is how a frame came in, or not.
type entry struct {
	stream  string // under which it is open
	waited  bool   // for its time
	tooFast bool   // it is dropped, since its stream sends too much

	turn *frameTurn // of one that goes in where modules keep state; end it
}

// enter waits until a frame may go in. A request that names no stream is a stream of one frame.
func (s *streams) enter(ctx context.Context, r *admission.StreamRules, state bool, owner string, f wire.Frame, deadline dispatch.Time, clock func() dispatch.Time) (e entry, err *wire.Error) {
	last := f.Last
	e.stream = owner + "\x00" + f.Stream // each caller has names of its own
	if f.Stream == "" {
		e.stream, last = "\x00\x00"+strconv.FormatInt(s.unnamed.Add(1), 10), true // none that a caller can give
	}
	frame := &heldFrame{make(chan struct{})}
	s.mu.Lock()
	v, before, until := s.of.Arrive(clock(), r, admission.StreamFrame{Stream: e.stream, First: f.First, Last: last, Deadline: deadline, Frame: frame})
	if state && v == admission.StreamEnters {
		e.turn = s.turn(e.stream, f.First, last)
	}
	s.mu.Unlock()
	if before != nil {
		close(before.(*heldFrame).dropped)
	}
	switch v {
	case admission.StreamEnters:
		return e, nil
	case admission.StreamRefused:
		return e, wire.Errorf(wire.CodeOverloaded, "", "as many streams are open as are planned for, %d, and 0 more fit; end one, or raise count of the stream block", r.Most)
	case admission.StreamDrops:
		e.tooFast = true
		return e, tooFast(r)
	}
	e.waited = true
	timer := time.NewTimer(until - clock())
	defer timer.Stop()
	dropped := false
	select {
	case <-timer.C:
	case <-frame.dropped:
		dropped = true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	switch {
	case dropped:
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		s.of.Withdraw(e.stream, frame)
		return e, wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
	case ctx.Err() != nil || deadline != 0 && now >= deadline:
		s.of.Withdraw(e.stream, frame)
		return e, wire.Errorf(wire.CodeDeadline, "", "its deadline has passed while it waited for the pace of its stream")
	case s.of.Release(now, r, e.stream, frame):
		if state {
			e.turn = s.turn(e.stream, f.First, last)
		}
		return e, nil
	}
	e.tooFast = true
	return e, tooFast(r)
}

// turn takes that of a frame that goes in. Nothing of a stream goes over to another of its name that
// begins. streams.mu is held.
func (s *streams) turn(name string, first, last bool) *frameTurn {
	kept := s.of.Kept(name)
	if *kept == nil || first {
		*kept = new(session)
	}
	f := (*kept).(*session).enters()
	if last {
		*kept = nil
	}
	return f
}

// tooFast is the error of a frame that its stream sends too soon, which is its caller's mistake.
func tooFast(r *admission.StreamRules) *wire.Error {
	return wire.Errorf(wire.CodeOverloaded, "", "its stream sends more than the %g frames a second that are planned for; this frame was dropped (stale = %q)", r.Rate, cmp.Or(r.Stale, pipelines.Stales()[0]))
}

// answer counts a frame that was answered in time.
func (s *streams) answer(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.Answer(name)
}

// shares are what the streams attain.
func (s *streams) shares(now dispatch.Time, r *admission.StreamRules) admission.StreamShares {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.of.Shares(now, r)
	all.WorstName = all.WorstName[strings.LastIndexByte(all.WorstName, 0)+1:]
	return all
}
