package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
)

// State of a stream travels with its frames: a module that keeps some is sent, beside the inputs of a
// frame, what it answered beside the outputs of the frame before, by whatever executor. So
// nothing of it is lost with an executor or a dispatcher: a batch that comes back without an answer is
// queued again with the same state. A frame waits at the module's door until the one before has been
// answered there or is over, so that a batch holds one frame of a stream at the most.

// MaxState bounds what a module keeps of one stream, in bytes of its tensors.
const MaxState = 1 << 20

// turns are the frames of one stream that are under way, in the order in which they went in, and what
// modules keep of those before. A plain value; the zero one is of a stream that begins.
type turns struct {
	first, last *place
	kept        map[string]moduleState // by module, after all frames before the first
	held        []heldItem
}

// moduleState is what a module keeps of a stream. State of another network is none: a module whose
// identity (see placement.Identity) changes begins without, and so does the one that comes back.
type moduleState struct {
	by string // the module's identity
	of []wire.NamedTensor
}

// place is that of a frame in its stream.
type place struct {
	before, next *place
	left         map[string]moduleState // by the modules that have answered it
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

// before is the state with which a frame comes to a module, none where the stream begins there; not
// ok while a frame before may change it.
func (s *turns) before(t *place, module string) (state moduleState, ok bool) {
	for b := t.before; b != nil; b = b.before {
		if state, answered := b.left[module]; answered {
			return state, true
		}
		if !b.over {
			return moduleState{}, false
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
func (s *turns) answer(t *place, module string, state moduleState) []heldItem {
	if t.over {
		return nil
	}
	if t.left == nil {
		t.left = make(map[string]moduleState)
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
			s.kept = make(map[string]moduleState)
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

	tried any // the canary at which the stream was drawn for a generation, and for which
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
