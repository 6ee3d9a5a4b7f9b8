package world

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
	"github.com/harpagon/harpagon/wire/stream"
)

var errCut = errors.New("the connection was cut")

// random is the sequence of draws of one actor.
func random(seed uint64, actor string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(seed, actor)))
}

// hash is a number that only what is named decides.
func hash(about ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, about...)
	return mix(h.Sum64())
}

// mix spreads a number over all its bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// between draws a duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

// process is what can be killed or stopped: a gateway, a dispatcher or a host.
type process struct {
	name string

	mu    sync.Mutex
	up    bool
	held  time.Time     // it is stopped until then
	wrong time.Duration // its clock is, by that much
	links []*link
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

func (p *process) heldUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// all its connections at the moment.
func (p *process) connections() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.links)
}

// down kills the process as far as the network is concerned.
func (p *process) down() {
	p.mu.Lock()
	p.up = false
	p.mu.Unlock()
	for _, l := range p.connections() {
		l.cut()
	}
}

// stop holds everything up that comes from the process or goes there.
func (p *process) stop(d time.Duration) {
	p.mu.Lock()
	p.held = time.Now().Add(d)
	p.mu.Unlock()
	for _, l := range p.connections() {
		l.silentFor(d)
	}
}

// link is a connection between two processes.
type link struct {
	a, b    *process
	watched bool // its protocol notices silence by itself
	sever   func()
	lag     time.Duration // after others when what was stopped goes on: nothing is to happen at one instant

	once sync.Once
	gone chan struct{}

	mu   sync.Mutex
	held time.Time
}

// connect makes a link; nil where one of the processes is not there.
func connect(a, b *process, watched bool, sever func()) *link {
	l := &link{a: a, b: b, watched: watched, sever: sever, gone: make(chan struct{})}
	l.lag = time.Duration(hash(a.name, b.name, time.Now().UnixNano()) % uint64(20*time.Microsecond))
	for _, p := range []*process{a, b} {
		p.mu.Lock()
		if !p.up {
			p.mu.Unlock()
			l.cut()
			return nil
		}
		p.links = append(p.links, l)
		p.mu.Unlock()
	}
	return l
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		l.sever()
		for _, p := range []*process{l.a, l.b} {
			p.mu.Lock()
			p.links = slices.DeleteFunc(p.links, func(other *link) bool { return other == l })
			p.mu.Unlock()
		}
	})
}

// stop holds everything up that is under way.
func (l *link) stop(d time.Duration) {
	l.mu.Lock()
	l.held = time.Now().Add(d)
	l.mu.Unlock()
	l.silentFor(d)
}

// silentFor ends a connection as package attach does, which gives up a silent peer.
func (l *link) silentFor(d time.Duration) {
	if !l.watched && d > stream.DefaultSilence {
		time.AfterFunc(stream.DefaultSilence, l.cut)
	}
}

// wait sleeps until the time, and as long as either side or the network between is
// stopped; it reports whether the connection still stands.
func (l *link) wait(at time.Time) bool {
	for {
		l.mu.Lock()
		held := l.held
		l.mu.Unlock()
		for _, until := range []time.Time{held, l.a.heldUntil(), l.b.heldUntil()} {
			if until.After(at) {
				at = until.Add(l.lag)
			}
		}
		left := time.Until(at)
		if left <= 0 {
			select {
			case <-l.gone:
				return false
			default:
				return true
			}
		}
		select {
		case <-time.After(left):
		case <-l.gone:
			return false
		}
	}
}

// parcel is under way until a time.
type parcel[T any] struct {
	content T
	at      time.Time
}

// line holds what is under way in one direction, in order. It grows as it has to: there
// are thousands of them in a world, and hardly any ever holds more than a few parcels.
type line[T any] struct {
	more chan struct{} // has a token once something was added

	mu    sync.Mutex
	under []parcel[T]
	ended bool
}

func (l *line[T]) add(p parcel[T], ended bool) {
	l.mu.Lock()
	if l.ended = ended; !ended {
		l.under = append(l.under, p)
	}
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// next waits for a parcel; false once all have been taken and none follows.
func (l *line[T]) next() (p parcel[T], ok bool) {
	for {
		l.mu.Lock()
		if len(l.under) > 0 {
			p = l.under[0]
			l.under = slices.Delete(l.under, 0, 1)
			l.mu.Unlock()
			return p, true
		}
		ended := l.ended
		l.mu.Unlock()
		if ended {
			return p, false
		}
		<-l.more
	}
}

// carry moves what comes from one side to the other, delayed and in order, until
// either has closed.
func carry[T any](l *link, delay func() time.Duration, receive func() (T, error), send func(T) error, end func()) {
	under := &line[T]{more: make(chan struct{}, 1)}
	go func() {
		var last time.Time
		for {
			content, err := receive()
			if err != nil {
				under.add(parcel[T]{}, true)
				return
			}
			at := time.Now().Add(delay())
			if !at.After(last) {
				at = last.Add(1)
			}
			last = at
			under.add(parcel[T]{content, at}, false)
		}
	}()
	for {
		p, ok := under.next()
		if !ok || !l.wait(p.at) || send(p.content) != nil {
			break
		}
	}
	end()
	l.cut()
	for _, ok := under.next(); ok; _, ok = under.next() { // until its receiver has ended
	}
}

// conn joins a gateway and a dispatcher by bytes.
func (w *world) conn(a, b *process) (near, far net.Conn) {
	near, x := net.Pipe()
	y, far := net.Pipe()
	l := connect(a, b, true, func() { _, _ = x.Close(), y.Close() })
	if l == nil {
		return nil, nil
	}
	r := w.delays(a.name + ">" + b.name)
	back := w.delays(b.name + ">" + a.name)
	read := func(c net.Conn) func() ([]byte, error) {
		room := make([]byte, 4<<10)
		return func() ([]byte, error) {
			n, err := c.Read(room)
			if n > 0 {
				return bytes.Clone(room[:n]), nil
			}
			return nil, err
		}
	}
	write := func(c net.Conn) func([]byte) error {
		return func(b []byte) error { _, err := c.Write(b); return err }
	}
	w.ends.Go(func() { carry(l, r, read(x), write(y), func() { _ = y.Close() }) })
	w.ends.Go(func() { carry(l, back, read(y), write(x), func() { _ = x.Close() }) })
	return near, far
}

// stream joins an executor and a gateway or a dispatcher by messages; seen is called for each
// where it leaves and where it arrives.
func (w *world) stream(from *process, executor string, n int, to *process) (near, far attach.Stream) {
	near, x := attach.Pipe()
	y, far := attach.Pipe()
	l := connect(from, to, false, func() { attach.Abort(x, errCut); attach.Abort(y, errCut) })
	if l == nil {
		return nil, nil
	}
	watch := w.history.watch(executor, to.name)
	up, back := w.delays(fmt.Sprint(executor, ">", to.name, n)), w.delays(fmt.Sprint(to.name, ">", executor, n))
	w.ends.Go(func() {
		carry(l, up, func() (*pb.Message, error) {
			m, err := x.Recv()
			if err != nil {
				return nil, err
			}
			return w.sent(m, from)
		}, func(p *pb.Message) error {
			m := w.received(p, to)
			watch.fromExecutor(m)
			return y.Send(m)
		}, func() { _ = y.Close() })
	})
	w.ends.Go(func() {
		carry(l, back, func() (*pb.Message, error) {
			m, err := y.Recv()
			if err != nil {
				return nil, err
			}
			watch.leaving(m)
			return w.sent(m, to)
		}, func(p *pb.Message) error {
			m := w.received(p, from)
			watch.toExecutor(m)
			return x.Send(m)
		}, func() { _ = x.Close() })
	})
	return near, far
}

// delays draws those of one direction of a connection. They go by the time, not by the
// number before: how bytes are gathered must not change those that follow.
func (w *world) delays(way string) func() time.Duration {
	key := hash(w.seed, way)
	return func() time.Duration {
		x := mix(key ^ uint64(time.Since(w.began)))
		d := 10*time.Microsecond + time.Duration(x%uint64(w.far))
		if x>>40%200 == 0 && w.troubled() {
			d += time.Duration(mix(x) % uint64(20*w.far))
		}
		return d
	}
}
