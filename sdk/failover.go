package sdk

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// patience is how long a request without a deadline goes on when no gateway answers.
const patience = 2 * time.Second

// Waits between two rounds over all gateways, when none has answered.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// several is the transport over several gateways.
type several struct {
	peers []*peer
	next  atomic.Uint64 // in turn
}

// String names all gateways.
func (s *several) String() string {
	var all []string
	for _, p := range s.peers {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

// check probes all gateways at once: whether they are there and take the token. One success
// suffices.
func (s *several) check(ctx context.Context) error {
	answers := make(chan error, len(s.peers))
	for _, p := range s.peers {
		go func() {
			err := p.Check(ctx)
			if err != nil && ctx.Err() == nil {
				p.fall()
			}
			answers <- err
		}()
	}
	var all []error
	for range s.peers {
		err := <-answers
		if err == nil || errors.Is(err, ErrInvalid) {
			return err
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// close lets go of all connections.
func (s *several) close() error {
	var all []error
	for _, p := range s.peers {
		all = append(all, p.Close())
	}
	return errors.Join(all...)
}

// Pipelines implements Transport.
func (s *several) Pipelines(ctx context.Context) (names []string, err error) {
	err = s.ask(ctx, func(ctx context.Context, t Connection) (err error) {
		names, err = t.Pipelines(ctx)
		return err
	})
	return names, err
}

// Metadata implements Transport.
func (s *several) Metadata(ctx context.Context, pipeline string) (m *wire.Metadata, err error) {
	err = s.ask(ctx, func(ctx context.Context, t Connection) (err error) {
		m, err = t.Metadata(ctx, pipeline)
		return err
	})
	return m, err
}

// Infer implements Transport.
func (s *several) Infer(ctx context.Context, q *wire.InferRequest) (r *wire.InferResponse, err error) {
	do := func(ctx context.Context, t Connection) (err error) {
		r, err = t.Infer(ctx, q)
		return err
	}
	if q.Frame.Stream == "" {
		return r, s.ask(ctx, do)
	}
	name := fnv.New32a() // frames of a stream go to one gateway as long as it is there
	_, _ = name.Write([]byte(q.Frame.Stream))
	first := uint64(name.Sum32())
	if f := standingOf(ctx); f != nil {
		do = func(ctx context.Context, t Connection) (err error) {
			r, err = f.infer(ctx, t, q)
			return err
		}
		if at := f.of.first(s.peers); at >= 0 {
			first = uint64(at)
		}
	}
	return r, s.askFrom(ctx, first, do)
}

// ask sends a request to one gateway after the other until one answers with something other
// than unavailable. A round without any answer is followed by another while there is time.
func (s *several) ask(ctx context.Context, do func(context.Context, Connection) error) error {
	return s.askFrom(ctx, s.next.Add(1), do)
}

// askFrom is ask beginning with a gateway.
func (s *several) askFrom(ctx context.Context, first uint64, do func(context.Context, Connection) error) error {
	began := time.Now()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		answered, err := s.round(ctx, int(first%uint64(len(s.peers))), do)
		if err == nil || answered || ctx.Err() != nil {
			return err
		}
		if _, bounded := ctx.Deadline(); !bounded && time.Since(began) > patience {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// round tries every gateway at most once. answered means that the error is the answer of a
// gateway that is ready.
func (s *several) round(ctx context.Context, first int, do func(context.Context, Connection) error) (answered bool, err error) {
	asked := make([]bool, len(s.peers))
	for _, last := range []bool{false, true} { // at last those that are down, too
		for i := range s.peers {
			i = (first + i) % len(s.peers)
			p := s.peers[i]
			if asked[i] || !last && !p.up() {
				continue
			}
			asked[i] = true
			e := p.ask(ctx, do)
			switch {
			case e == nil, ctx.Err() != nil:
				return true, e
			case errors.Is(e, errUnreachable), errors.Is(e, errStarting):
				if err == nil {
					err = e
				}
			case errors.Is(e, ErrUnavailable): // it is stopping, or has lost its executors
				answered, err = true, e
			default:
				return true, e
			}
		}
		if answered {
			break // those that are down need not be tried for a second opinion
		}
	}
	return answered, err
}

// How a lost gateway is noticed. A connection that breaks is noticed at once. A gateway
// that stays silent while requests wait is probed. When it does not answer soon, new
// requests go to others; those that wait follow later, because they may then be computed
// twice.
const (
	shortSilence = 150 * time.Millisecond // without any answer, before a gateway that has been fast is probed
	silence      = 500 * time.Millisecond // and any other
	doubtAfter   = 100 * time.Millisecond // without an answer to the probe, new requests go to others
	probeWithin  = 450 * time.Millisecond // and all do
	probeEvery   = time.Second            // of one that is down

	fast      = 4  // times the usual wait for an answer are a silence
	usualStep = 16 // answers until the usual wait has followed
)

// errUnreachable is what a request ends with that has no answer, because its gateway
// could not be reached, or went before it answered.
var errUnreachable = errors.New("the gateway is gone")

// errStarting is what a request ends with that a gateway cannot answer yet.
var errStarting = errors.New("the gateway is not ready")

// errSilent ends the requests that wait for a gateway which is found to be gone.
var errSilent = errors.New("the gateway does not answer any more")

// peer is one of several gateways.
type peer struct {
	Connection
	began  time.Time
	heard  atomic.Int64 // when it last answered, since began
	probed atomic.Int64 // when it was last probed
	usual  atomic.Int64 // wait for an answer, smoothed
	down   atomic.Bool

	mu      sync.Mutex
	number  uint64
	waiting map[uint64]context.CancelCauseFunc // requests
	watched bool
}

func newPeer(c Connection) *peer {
	return &peer{Connection: c, began: time.Now(), waiting: map[uint64]context.CancelCauseFunc{}}
}

// ask sends one request. Without an answer the error wraps errUnreachable, and errStarting
// when the gateway is not ready yet.
func (p *peer) ask(ctx context.Context, do func(context.Context, Connection) error) error {
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.leave(p.enter(cancel))
	sent := time.Now()
	err := do(attempt, p.Connection)
	var broken *unreachableError
	var answer *wire.Error
	switch {
	case err == nil: // whatever has been found meanwhile
	case ctx.Err() != nil:
		return err
	case errors.Is(context.Cause(attempt), errSilent):
		return fmt.Errorf("%w: %s: %w", errUnreachable, p, errSilent)
	case errors.As(err, &broken):
		if broken.dialing {
			p.down.Store(true)
		} else if p.due(silence) { // one connection, or all of them?
			go p.probe()
		}
		return fmt.Errorf("%w: %w", errUnreachable, err)
	case errors.As(err, &answer) && answer.Starting:
		p.heard.Store(int64(time.Since(p.began)))
		p.down.Store(true) // until the next probe
		return fmt.Errorf("%w: %w", errStarting, err)
	}
	p.heard.Store(int64(time.Since(p.began)))
	p.down.Store(false)
	usual := p.usual.Load() // two at once may lose one, which does not matter
	p.usual.Store(usual + (int64(time.Since(sent))-usual)/usualStep)
	return err
}

// quiet is how long the gateway may be silent before it is probed.
func (p *peer) quiet() time.Duration {
	return min(silence, max(shortSilence, fast*time.Duration(p.usual.Load())))
}

func (p *peer) enter(cancel context.CancelCauseFunc) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	p.waiting[p.number] = cancel
	if !p.watched {
		p.watched = true
		go p.watch()
	}
	return p.number
}

// watch listens to the gateway for as long as requests wait for it.
func (p *peer) watch() {
	for {
		time.Sleep(p.quiet())
		p.mu.Lock()
		if p.watched = len(p.waiting) > 0; !p.watched {
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if time.Since(p.began)-time.Duration(p.heard.Load()) >= p.quiet() && p.due(p.quiet()/2) {
			p.probe()
		}
	}
}

func (p *peer) leave(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, number)
}

// up reports whether the gateway is taken to be there. One that is down is probed now and
// then in the background.
func (p *peer) up() bool {
	if !p.down.Load() {
		return true
	}
	if p.due(probeEvery) {
		go p.probe()
	}
	return false
}

// due returns true, to one caller, when the last probe is so long ago.
func (p *peer) due(after time.Duration) bool {
	now, last := int64(time.Since(p.began)), p.probed.Load()
	return now-last >= int64(after) && p.probed.CompareAndSwap(last, now)
}

func (p *peer) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	doubt := time.AfterFunc(doubtAfter, func() { p.down.Store(true) })
	err := p.Live(ctx)
	doubt.Stop()
	var broken *unreachableError
	if err != nil && (ctx.Err() != nil || errors.As(err, &broken)) {
		p.fall()
		return
	}
	p.heard.Store(int64(time.Since(p.began)))
	p.down.Store(false)
}

// fall notes that the gateway is gone and lets all who wait for it go on with
// another.
func (p *peer) fall() {
	p.down.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.waiting {
		cancel(errSilent)
	}
}
