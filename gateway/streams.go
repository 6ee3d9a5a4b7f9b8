package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// streams are those of one pipeline that are open at this gateway.
type streams struct {
	asking sync.Mutex // one stream opens or closes at a time: what is asked for agrees with places; before mu

	mu       sync.Mutex
	of       map[string]*admission.Streams // by kind
	sessions map[string]*session           // of open streams with state
	places   map[string]*streamPlace       // that streams have, or that were asked for
	expiry   *time.Timer                   // looks for streams that are over; nil while none is open
	looks    dispatch.Time                 // when it does
	unnamed  atomic.Int64
}

// streamPlace is one that a stream has been asked for.
type streamPlace struct {
	at      dispatcher.Stream
	waiting int           // frames that have come before there was an answer, and not given up
	settled chan struct{} // closed when there is one, which is
	told    admission.Place
	last    chan struct{} // closed when the frame that has come last has come in, or not; see line
}

// door is where a pipeline's streams come in, and has their places. One of a pipeline that is removed
// hears of its own yet.
type door struct {
	g *Gateway
	p *pipeline
}

// heldFrame is a frame that waits for its time, or for another in its place.
type heldFrame struct{ dropped chan struct{} }

// entry is how a frame came in, or not.
type entry struct {
	stream  string        // under which it is open
	kind    string        // of its stream
	waited  bool          // for its time
	tooFast bool          // it is dropped, since its stream sends too much
	known   bool          // its stream was refused before, and it is no load of its own
	shift   dispatch.Time // how much later its stream should send

	turn *frameTurn // of one that goes in where modules keep state; end it
}

// frameOf is a frame on its way in.
type frameOf struct {
	wire.Frame
	gr       *deployed
	rules    *admission.StreamRules // of its kind; see enter
	owner    string                 // whose stream it is
	brought  map[string]moduleState // from another gateway; nil for nothing
	came     dispatch.Time
	deadline dispatch.Time
	inLine   func() // called when those of its stream that come later are behind it; nil for nothing
}

// enter waits until a frame may go in. A request that names no stream is a stream of one frame.
func (g *Gateway) enter(ctx context.Context, p *pipeline, f *frameOf) (e entry, err *wire.Error) {
	s := &p.streams
	last := f.Last
	e.stream = f.owner + "\x00" + f.Stream // each caller has names of its own
	if f.Stream == "" {
		e.stream, last = "\x00\x00"+g.name+strconv.FormatInt(s.unnamed.Add(1), 10), true // none that a caller can give
	}
	if f.rules, err = s.rules(f, e.stream); err != nil {
		return e, err
	}
	e.kind = f.rules.Kind
	if !s.hasPlace(e.stream) {
		if err = g.lacks(f.gr, g.now()+1); err != nil {
			return e, err // it keeps the place that it may have at another gateway
		}
	}
	place, next, err := g.place(ctx, p, f, e.stream)
	if err != nil {
		return e, err
	}
	s.mu.Lock()
	for place.told.Open && s.places[e.stream] != place { // its stream has ended meanwhile, and it begins another
		s.mu.Unlock()
		old := next
		place, next, err = g.place(ctx, p, f, e.stream)
		if old(); err != nil {
			return e, err
		}
		s.mu.Lock()
	}
	frame := &heldFrame{make(chan struct{})}
	now, told, streams := g.now(), place.told, s.kind(f.rules.Kind)
	v, before, until := streams.Arrive(now, f.rules, admission.StreamFrame{Stream: e.stream, First: f.First, Last: last, Deadline: f.deadline, Frame: frame})
	if f.Stream != "" && !last {
		e.shift = streams.Look(f.came, f.rules, e.stream, told.Phase)
	}
	if v == admission.StreamRefused {
		e.known = !streams.Refuse(now, f.rules, e.stream)
	}
	var of *session
	if v != admission.StreamRefused && f.gr.stateful {
		of = s.session(e.stream, f.First || f.brought != nil, last, func() *session { return newSession(g.options.Bytes.Begin(p.name), f.brought) })
	}
	if v == admission.StreamEnters && of != nil {
		e.turn = of.enters()
	}
	s.mu.Unlock()
	next()
	if last {
		g.expireStreams(p)
	}
	if before != nil {
		close(before.(*heldFrame).dropped)
	}
	switch v {
	case admission.StreamEnters:
		return e, nil
	case admission.StreamRefused:
		return e, noPlace(f.rules, told)
	case admission.StreamDrops:
		e.tooFast = true
		return e, tooFast(f.rules)
	}
	e.waited = true
	timer := time.NewTimer(until - now)
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
	now = g.now()
	switch ended := ctx.Err(); {
	case dropped:
	case ended != nil && !errors.Is(ended, context.DeadlineExceeded):
		streams.Withdraw(e.stream, frame)
		return e, wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
	case ended != nil || f.deadline != 0 && now >= f.deadline:
		streams.Withdraw(e.stream, frame)
		return e, wire.Errorf(wire.CodeDeadline, "", "its deadline has passed while it waited for the pace of its stream")
	case streams.Release(now, f.rules, e.stream, frame):
		if of != nil {
			e.turn = of.enters()
		}
		return e, nil
	case s.places[e.stream] != place:
		return e, noPlace(f.rules, place.told)
	}
	e.tooFast = true
	return e, tooFast(f.rules)
}

// kind are the streams of a kind. streams.mu is held.
func (s *streams) kind(kind string) *admission.Streams {
	if s.of == nil {
		s.of = make(map[string]*admission.Streams)
	}
	of := s.of[kind]
	if of == nil {
		of = new(admission.Streams)
		s.of[kind] = of
	}
	return of
}

// rules are those of the kind that a frame names for its stream, or that the stream was opened with.
func (s *streams) rules(f *frameOf, name string) (*admission.StreamRules, *wire.Error) {
	kind := f.Kind
	if kind == "" && len(f.gr.rules) > 1 {
		s.mu.Lock()
		if place := s.places[name]; place != nil {
			kind = place.at.Kind
		}
		s.mu.Unlock()
	}
	if kind == "" && len(f.gr.rules) == 1 {
		return &f.gr.rules[0], nil
	}
	if r := f.gr.kind(kind); r != nil {
		return r, nil
	}
	var names []string
	for i := range f.gr.rules {
		names = append(names, f.gr.rules[i].Kind)
	}
	switch {
	case len(names) == 1 && names[0] == "":
		return nil, wire.Errorf(wire.CodeInvalid, "", "%s has streams of one kind, which has no name; leave %s out", f.gr.Title, wire.StreamKind)
	case kind == "":
		return nil, wire.Errorf(wire.CodeInvalid, "", "%s has streams of several kinds; say with %s which one this is of: %s", f.gr.Title, wire.StreamKind, pipelines.Quoted(names))
	}
	return nil, wire.Errorf(wire.CodeInvalid, "", "%s has no streams of kind %q; there is %s", f.gr.Title, kind, pipelines.Quoted(names))
}

// kind are the rules of a kind of streams; nil for none.
func (gr *deployed) kind(kind string) *admission.StreamRules {
	for i := range gr.rules {
		if gr.rules[i].Kind == kind {
			return &gr.rules[i]
		}
	}
	return nil
}

// describeKinds fills in how many frames a second streams of each kind send.
func describeKinds(m *wire.Metadata, rules []admission.StreamRules) {
	if len(rules) == 1 {
		m.FrameRate, m.Jitter, m.Spread = rules[0].Rate, rules[0].Jitter, rules[0].Chosen()
		return
	}
	for i := range rules {
		r := &rules[i]
		m.Kinds = append(m.Kinds, wire.Kind{Name: r.Kind, Streams: r.Count, FrameRate: r.Rate, Spread: r.Chosen(), Jitter: r.Jitter})
	}
}

// place waits until a stream has a place, for which it asks whoever decides for the service, and until the frames
// that have come before have gone in; next is for the one behind.
func (g *Gateway) place(ctx context.Context, p *pipeline, f *frameOf, name string) (of *streamPlace, next func(), err *wire.Error) {
	s := &p.streams
	place := s.placeOf(name)
	if place == nil {
		place = g.askPlace(p, dispatcher.Stream{Pipeline: p.name, Kind: f.rules.Kind, Name: name})
	}
	if is := place.at.Kind; is != f.rules.Kind {
		g.leavePlace(p, place)
		if f.gr.kind(is) == nil {
			return nil, nil, wire.Errorf(wire.CodeUnavailable, "", "its pipeline has no streams of kind %q any more, of which its stream was; try again", is)
		}
		return nil, nil, wire.Errorf(wire.CodeInvalid, "", "its stream is open as one of kind %q, not %q; end it and wait for one of its periods, or give each a name of its own", is, f.rules.Kind)
	}
	before, mine := s.line(place)
	if f.inLine != nil {
		f.inLine()
	}
	next = func() { close(mine) }
	if isClosed(place.settled) && isClosed(before) {
		return place, next, nil
	}
	if f.deadline != 0 {
		limited, cancel := context.WithDeadline(ctx, g.epoch.Add(f.deadline))
		defer cancel()
		ctx = limited
	}
	for _, until := range []chan struct{}{before, place.settled} {
		select {
		case <-until:
		case <-ctx.Done():
		}
	}
	settled := g.leavePlace(p, place)
	if settled && isClosed(before) {
		return place, next, nil
	}
	go func() { // who is behind still waits for who is before
		<-before
		close(mine)
	}()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if settled {
			return nil, nil, wire.Errorf(wire.CodeDeadline, "", "its deadline has passed behind earlier frames of its stream")
		}
		return nil, nil, wire.Errorf(wire.CodeDeadline, "", "no dispatcher has given its stream a place in time; harpagon status says which decides")
	}
	return nil, nil, wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
}

// line puts a frame behind the one that has come before it: that closes before, and this is to close mine.
func (s *streams) line(place *streamPlace) (before, mine chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before = place.last; before == nil {
		before = make(chan struct{})
		close(before)
	}
	place.last = make(chan struct{})
	return before, place.last
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// service is the service whose plan has places for the streams.
func (gr *deployed) service() string { return cmp.Or(gr.Deployment.Within, gr.Deployment.Name()) }

// askPlace asks for the place of a stream, unless somebody has meanwhile, of the service that serves it now.
func (g *Gateway) askPlace(p *pipeline, at dispatcher.Stream) *streamPlace {
	s := &p.streams
	s.asking.Lock()
	defer s.asking.Unlock()
	if place := s.placeOf(at.Name); place != nil {
		return place
	}
	gr := p.current.Load()
	at.Service = gr.service()
	s.mu.Lock()
	place := &streamPlace{at: at, waiting: 1, settled: make(chan struct{})}
	if s.places == nil {
		s.places = make(map[string]*streamPlace)
	}
	s.places[at.Name] = place
	s.mu.Unlock()
	g.queue.OpenStream(gr.Generation, at, door{g, p})
	return place
}

// placeOf is the place that a stream has or has been asked for, where another frame waits now; nil for none.
func (s *streams) placeOf(name string) *streamPlace {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.places[name]
	if place != nil {
		place.waiting++
	}
	return place
}

// hasPlace reports whether a stream has a place, or one was requested.
func (s *streams) hasPlace(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[name] != nil
}

// leavePlace reports whether there is an answer by now. Else a frame gives up, and with the last of
// them what was asked for.
func (g *Gateway) leavePlace(p *pipeline, place *streamPlace) (settled bool) {
	s := &p.streams
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mu.Lock()
	if isClosed(place.settled) {
		s.mu.Unlock()
		return true
	}
	place.waiting--
	last := place.waiting == 0
	if last {
		delete(s.places, place.at.Name)
	}
	s.mu.Unlock()
	if last {
		g.queue.CloseStream(place.at, door{g, p})
	}
	return false
}

// Placed learns of the place of a stream; see dispatcher.StreamHolder.
func (d door) Placed(of dispatcher.Stream, told admission.Place) {
	g, p := d.g, d.p
	s, rules := &p.streams, p.current.Load().kind(of.Kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.places[of.Name]
	if place == nil || place.at != of {
		if told.Open {
			go g.returnPlace(p, of)
		}
		return
	}
	place.told = told
	if !told.Open {
		delete(s.places, of.Name)
		s.close(of)
	} else {
		now := g.now()
		looks := now
		if rules != nil {
			s.kind(of.Kind).Open(now, rules, of.Name)
			looks += rules.Silence()
		}
		if s.expiry == nil {
			s.looks, s.expiry = looks, time.AfterFunc(looks-now, func() { g.expireStreams(p) }) // which sets it again
		} else if looks < s.looks {
			s.looks = looks
			s.expiry.Reset(looks - now)
		}
	}
	if !isClosed(place.settled) {
		close(place.settled)
	}
}

// returnPlace gives back a place for which no stream asks any more.
func (g *Gateway) returnPlace(p *pipeline, of dispatcher.Stream) {
	s := &p.streams
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mu.Lock()
	place := s.places[of.Name]
	s.mu.Unlock()
	if place == nil || place.at != of {
		g.queue.CloseStream(of, door{g, p})
	}
}

// expireStreams gives back the places of streams that are over, also by another plan, and looks again when another
// may be.
func (g *Gateway) expireStreams(p *pipeline) {
	s := &p.streams
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mu.Lock()
	gr := p.current.Load()
	var over []*streamPlace
	end := func(place *streamPlace) {
		s.close(place.at)
		delete(s.places, place.at.Name)
		if !isClosed(place.settled) {
			close(place.settled)
		}
		over = append(over, place)
	}
	var next dispatch.Time
	for kind, streams := range s.of {
		rules := gr.kind(kind)
		if rules == nil { // it has no such streams any more
			delete(s.of, kind)
			continue
		}
		ended, soonest := streams.Expire(g.now(), rules)
		for _, name := range ended {
			if place := s.places[name]; place != nil && place.at.Kind == kind {
				end(place)
			}
		}
		if soonest > 0 && (next == 0 || soonest < next) {
			next = soonest
		}
	}
	var moved []dispatcher.Stream // of pipelines that another part of their cluster serves now
	for _, place := range s.places {
		switch service := gr.service(); {
		case gr.kind(place.at.Kind) == nil:
			end(place)
		case place.at.Service != service:
			moved = append(moved, place.at)
			place.at.Service = service
		}
	}
	switch {
	case s.expiry == nil:
	case next == 0:
		s.expiry.Stop()
		s.expiry = nil
	default:
		s.looks = next
		s.expiry.Reset(next - g.now())
	}
	s.mu.Unlock()
	for _, place := range over {
		g.queue.CloseStream(place.at, door{g, p})
	}
	for _, at := range moved {
		g.queue.CloseStream(at, door{g, p})
		at.Service = gr.service()
		g.queue.OpenStream(gr.Generation, at, door{g, p})
	}
}

// noPlace is the error of a frame whose stream has no place.
func noPlace(r *admission.StreamRules, p admission.Place) *wire.Error {
	of := ""
	if r.Kind != "" {
		of = fmt.Sprintf(" of kind %q", r.Kind)
	}
	if !p.Taken && p.Planned == 0 {
		return wire.Errorf(wire.CodeUnavailable, "", "its pipeline has just been removed, or has no streams%s any more; try again", of)
	}
	err := wire.Errorf(wire.CodeOverloaded, "", "as many streams%s are open as are planned for, %d, and 0 more fit; end one, or raise count of the stream block", of, p.Planned)
	if p.Taken {
		err.Reason = "a stream of this name sends by another gateway; give each a name of its own, or wait a second"
	}
	err.Cause = wire.CauseNoPlace
	return err
}

// session is that of a frame which comes, whether it goes in or is dropped. Nothing of a stream goes over
// to another of its name that begins. streams.mu is held.
func (s *streams) session(name string, begins, last bool, fresh func() *session) *session {
	of := s.sessions[name]
	if of == nil || begins {
		of.close()
		of = fresh()
		if s.sessions == nil {
			s.sessions = map[string]*session{}
		}
		s.sessions[name] = of
	}
	if last {
		of.close()
		delete(s.sessions, name)
	}
	return of
}

// keeps reports whether there is a session of a stream.
func (s *streams) keeps(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[name] != nil
}

// close forgets an open stream. streams.mu is held.
func (s *streams) close(of dispatcher.Stream) {
	if all := s.of[of.Kind]; all != nil {
		all.Close(of.Name)
	}
	s.sessions[of.Name].close()
	delete(s.sessions, of.Name)
}

// tooFast is the error of a frame that its stream sends too soon, which is its caller's mistake.
func tooFast(r *admission.StreamRules) *wire.Error {
	err := wire.Errorf(wire.CodeOverloaded, "", "its stream sends more than the %g frames a second that are planned for; this frame was dropped (stale = %q)", r.Rate, cmp.Or(r.Stale, pipelines.Stales()[0]))
	err.Cause = wire.CauseTooFast
	return err
}

// count counts a frame that has come to its end, as the attainment of the service does.
func (s *streams) count(e *entry, inTime bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.of[e.kind]; of != nil {
		of.Count(e.stream, inTime)
	}
}

// called is how its caller calls a stream.
func called(name string) string { return name[strings.LastIndexByte(name, 0)+1:] }
