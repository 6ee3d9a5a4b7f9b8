package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
)

// State of a stream travels with its frames: a module that keeps some is sent, beside the inputs of a
// frame, what it answered beside the outputs of the frame before, by whatever executor. So
// nothing of it is lost with an executor or a dispatcher: a batch that comes back without an answer is
// queued anew with the same state. A frame waits at the module's door until the one before has been
// answered there or is over, so that a batch holds one frame of a stream at the most.

// MaxState bounds what a module keeps of one stream, in bytes of its tensors.
const MaxState = 1 << 20

// turns are the frames of one stream that are under way, in the order in which they went in, and what
// modules keep of those before. Modules are told apart by what they compute (see
// placement.Identity): state of another network is none. A plain value; the zero one is of a stream that begins.
type turns struct {
	first, last *place
	kept        map[string][]wire.NamedTensor // by module, after all frames before the first
	held        []heldItem
}

// place is that of a frame in its stream.
type place struct {
	before, next *place
	left         map[string][]wire.NamedTensor // by the modules that have answered it
	over         bool
}

// heldItem is a frame at a module's door, as its driver knows it.
type heldItem struct {
	turn   *place
	module string
	item   any
}

// take gives the next frame its place.
func (s *turns) take() *place {
	t := &place{before: s.last}
	if s.last == nil {
		s.first = t
	} else {
		s.last.next = t
	}
	s.last = t
	return t
}

// before is the state with which a frame comes to a module, nil where the stream begins there; not
// ok while a frame before may change it.
func (s *turns) before(t *place, module string) (state []wire.NamedTensor, ok bool) {
	for b := t.before; b != nil; b = b.before {
		if state, answered := b.left[module]; answered {
			return state, true
		}
		if !b.over {
			return nil, false
		}
	}
	return s.kept[module], true
}

// hold keeps an item until its state is known.
func (s *turns) hold(t *place, module string, item any) {
	s.held = append(s.held, heldItem{t, module, item})
}

// answer notes what a module left of a frame, unless the frame is over: that is given up, and the next
// has begun from the state before it. It returns what was held and may go on, in order.
func (s *turns) answer(t *place, module string, state []wire.NamedTensor) []heldItem {
	if t.over {
		return nil
	}
	if t.left == nil {
		t.left = make(map[string][]wire.NamedTensor)
	}
	t.left[module] = state
	return s.ready()
}

// end says that a frame is over: modules that have not answered it never will. It returns what
// was held and may go on.
func (s *turns) end(t *place) []heldItem {
	t.over = true
	for s.first != nil && s.first.over {
		if s.kept == nil {
			s.kept = make(map[string][]wire.NamedTensor)
		}
		maps.Copy(s.kept, s.first.left)
		if s.first = s.first.next; s.first == nil {
			s.last = nil
		} else {
			s.first.before = nil
		}
	}
	return s.ready()
}

func (s *turns) ready() (all []heldItem) {
	s.held = slices.DeleteFunc(s.held, func(h heldItem) bool {
		_, ok := s.before(h.turn, h.module)
		if ok || h.turn.over {
			all = append(all, h)
		}
		return ok || h.turn.over
	})
	return all
}

// session is what a gateway keeps of a stream whose modules keep state.
type session struct {
	mu    sync.Mutex
	turns turns

	tried *canary // at which the stream was drawn for a generation, and for which
	drawn rollout.To
}

// frameTurn is the turn of a frame in its session.
type frameTurn struct {
	of   *session
	turn *place
}

// enters takes the turn of a frame.
func (s *session) enters() *frameTurn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &frameTurn{s, s.turns.take()}
}

// admit gives an item the state with which it runs; false where it waits for a frame before.
func (f *frameTurn) admit(it *Item) bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	state, ok := f.of.turns.before(f.turn, it.Node.Module.Identity)
	if !ok {
		f.of.turns.hold(f.turn, it.Node.Module.Identity, it)
		return false
	}
	it.state = state
	return true
}

// answered notes what the module of an item left, and returns items of other frames that may go on.
func (f *frameTurn) answered(it *Item) []*Item {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.of.goOn(f.of.turns.answer(f.turn, it.Node.Module.Identity, it.left))
}

// end lets the next frames go on without this one.
func (f *frameTurn) end() {
	f.of.mu.Lock()
	next := f.of.goOn(f.of.turns.end(f.turn))
	f.of.mu.Unlock()
	arrive(next)
}

// goOn gives items that were held their state. session.mu is held.
func (s *session) goOn(held []heldItem) []*Item {
	var all []*Item
	for _, h := range held {
		it := h.item.(*Item)
		it.state, _ = s.turns.before(h.turn, h.module)
		all = append(all, it)
	}
	return all
}

// arrive queues items that were held. One whose request is over is dropped by the dispatcher.
func arrive(items []*Item) {
	for _, it := range items {
		it.Of.Graph.queue.Arrive(&it.Item)
	}
}

// draw is for which of two generations the stream is: all of its frames are for the same, since
// each would miss what the other has seen. Nothing is sent to both.
func (s *session) draw(c *canary) rollout.To {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried != c {
		s.tried, s.drawn = c, rollout.Draw(c.drawn.Add(1), c.update)
	}
	if s.drawn == rollout.Shadow {
		return rollout.Stable
	}
	return s.drawn
}

type turnKey struct{}

// withTurn is the context of a frame of a stream with state.
func withTurn(ctx context.Context, f *frameTurn) context.Context {
	return context.WithValue(ctx, turnKey{}, f)
}

// turnOf is the turn of a frame; nil where its stream has no state.
func turnOf(ctx context.Context) *frameTurn {
	f, _ := ctx.Value(turnKey{}).(*frameTurn)
	return f
}

// hasState reports whether modules keep state between frames.
func (gr *deployed) hasState() bool {
	return slices.ContainsFunc(gr.Nodes, func(n *Node) bool { return n.state })
}

// fresh reports whether a module that keeps state began without. The request is over.
func (r *Request) fresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for it := r.items; it != nil; it = it.next {
		if it.fresh {
			return true
		}
	}
	return false
}

// loop is state in the signature of an executor.
type loop struct {
	in, out int // places among inputs and outputs
	port    pipelines.Port
}

// loopsOf are those of a signature; err where an output is missing.
func loopsOf(n *Node, s *pipelines.Signature) (all []loop, err *wire.Error) {
	for i, p := range s.Inputs {
		if p.Loop == "" {
			continue
		}
		out := slices.IndexFunc(s.Outputs, func(o pipelines.Port) bool { return o.Name == p.Loop })
		if out < 0 {
			return nil, wire.Errorf(wire.CodeInternal, n.Name, "its executor has no output %q, which is to go back to input %q", p.Loop, p.Name)
		}
		all = append(all, loop{i, out, p})
	}
	switch {
	case n.state && len(all) == 0:
		err = wire.Errorf(wire.CodeInternal, n.Name, "its executor keeps no state")
	case !n.state && len(all) > 0:
		err = wire.Errorf(wire.CodeInternal, n.Name, "its executor keeps state, and the module does not say so; set state = true")
	}
	return all, err
}

// stateful are the inputs of an executor with the state of the item's stream among them: zeros where
// it begins.
func (r *Route) stateful(it *Item) []wire.Tensor {
	all := make([]wire.Tensor, len(r.in))
	for j, i := range r.in {
		if i >= 0 {
			all[j] = it.Inputs[i]
		}
	}
	it.fresh = false
	for _, l := range r.loops {
		at := slices.IndexFunc(it.state, func(t wire.NamedTensor) bool { return t.Name == l.port.Name && l.fits(&t.Tensor) })
		if at < 0 {
			all[l.in], it.fresh = wire.Zeros(l.port.Datatype, l.port.Shape), true
			continue
		}
		all[l.in] = it.state[at].Tensor
	}
	return all
}

func (l *loop) fits(t *wire.Tensor) bool {
	return t.Datatype == l.port.Datatype && wire.ShapeFits(l.port.Shape, t.Shape)
}

// keep takes the state out of an answer. It has memory of its own: that of an answer may be that of
// a batch.
func (r *Route) keep(it *Item, made []wire.Tensor) *wire.Error {
	var left []wire.NamedTensor
	var size int64
	for _, l := range r.loops {
		if l.out >= len(made) {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "an answer has %d outputs; its executor promised more", len(made))
		}
		t := made[l.out]
		if err := t.Validate(); err != nil || !l.fits(&t) {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "output %q is %s %v, and cannot go back to input %q, which is %s %v", l.port.Loop, t.Datatype, t.Shape, l.port.Name, l.port.Datatype, l.port.Shape)
		}
		if size += int64(len(t.Data)); size > MaxState {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "its state of this stream has %s, and at most %s are kept; let the module keep less", quantity.Bytes(size), quantity.Bytes(MaxState))
		}
		t.Data, t.Shape = slices.Clone(t.Data), slices.Clone(t.Shape)
		left = append(left, wire.NamedTensor{Name: l.port.Name, Tensor: t})
	}
	it.left = left
	return nil
}
