package gateway

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"

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

// streamRules are those of the plan that serves; false where requests are no frames.
func (gr *deployed) streamRules() (r admission.StreamRules, ok bool) {
	p := &gr.Deployment.Pipeline
	if p.Stream.IsZero() {
		return r, false
	}
	return admission.StreamRules{Stream: p.Stream, Most: p.Streams()}, true
}

// enter waits until a frame may go in, and gives the name under which its stream is open. A request
// that names no stream is a stream of one frame.
func (g *Gateway) enter(ctx context.Context, p *pipeline, r *admission.StreamRules, q *wire.InferRequest, deadline dispatch.Time) (name string, err *wire.Error) {
	name, last := q.Frame.Stream, q.Frame.Last
	if name == "" {
		name, last = "\x00"+strconv.FormatInt(p.streams.unnamed.Add(1), 10), true // none that a caller can give
	}
	frame := &heldFrame{make(chan struct{})}
	s := &p.streams
	s.mu.Lock()
	v, before, until := s.of.Arrive(g.now(), r, name, frame, last)
	s.mu.Unlock()
	if before != nil {
		close(before.(*heldFrame).dropped)
	}
	switch v {
	case admission.StreamEnters:
		return name, nil
	case admission.StreamRefused:
		return name, wire.Errorf(wire.CodeOverloaded, "", "as many streams are open as are planned for, %d, and 0 more fit; end one, or raise count of the stream block", r.Most)
	case admission.StreamDrops:
		return name, tooFast(r)
	}
	timer := g.timer(until - g.now())
	defer g.timers.Put(timer)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-frame.dropped:
		return name, tooFast(r)
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.of.Withdraw(name, frame)
		return name, wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := g.now()
	switch {
	case !s.of.Release(now, r, name, frame):
		return name, tooFast(r)
	case deadline != 0 && now >= deadline:
		return name, wire.Errorf(wire.CodeDeadline, "", "its deadline has passed while it waited for the pace of its stream")
	}
	return name, nil
}

func tooFast(r *admission.StreamRules) *wire.Error {
	return wire.Errorf(wire.CodeOverloaded, "", "its stream sends more than the %g frames a second that are planned for; this frame was dropped (stale = %q)", r.Rate, cmp.Or(r.Stale, pipelines.Stales()[0]))
}

// frame runs a request to a pipeline whose requests are frames.
func (g *Gateway) frame(ctx context.Context, p *pipeline, gr *deployed, r *admission.StreamRules, q *wire.InferRequest, arrival dispatch.Time, run func() (*wire.InferResponse, error)) (*wire.InferResponse, error) {
	deadline := g.deadline(ctx, gr.SLO, arrival)
	name, err := g.enter(ctx, p, r, q, deadline)
	if err != nil {
		g.refuse(ctx, p, gr, nil, q, arrival, err)
		return nil, err
	}
	answer, failed := run()
	if failed == nil && (deadline == 0 || g.now() <= deadline) {
		p.streams.mu.Lock()
		p.streams.of.Answer(name)
		p.streams.mu.Unlock()
	}
	return answer, failed
}

// AllStreams are those of every pipeline that has any, by its name.
func (g *Gateway) AllStreams() map[string]admission.StreamShares {
	all := map[string]admission.StreamShares{}
	for name := range *g.pipelines.Load() {
		if of, ok := g.Streams(name); ok {
			all[name] = of
		}
	}
	return all
}

// Streams tells of the streams of a pipeline that are open at this gateway; false where it has none.
func (g *Gateway) Streams(name string) (admission.StreamShares, bool) {
	p := g.pipeline(name)
	if p == nil {
		return admission.StreamShares{}, false
	}
	r, ok := p.current.Load().streamRules()
	if !ok {
		return admission.StreamShares{}, false
	}
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	return p.streams.of.Shares(g.now(), &r), true
}
