package gateway

import (
	"context"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
)

// State of a stream travels with its frames: a module that keeps some is sent, beside the inputs of a
// frame, what it answered beside the outputs of the frame before, by whatever executor. So
// nothing of it is lost with an executor or a dispatcher: a batch that comes back without an answer is
// queued again with the same state. A frame waits at the module's door until the one before has been
// answered there or is over, so that a batch holds one frame of a stream at the most.

// moduleState is what a module keeps of a stream. State of another network is none: a module whose
// identity (see placement.Identity) changes begins without, and so does the one that comes back.
type moduleState struct {
	by string // the module's identity
	of []wire.NamedTensor
}

// session is what a gateway keeps of a stream whose modules keep state.
type session struct {
	mu    sync.Mutex
	turns admission.Turns[moduleState]

	tried any // at which the stream was drawn for a generation, and for which
	drawn rollout.To
}

// frameTurn is the turn of a frame in its session.
type frameTurn struct {
	of   *session
	turn *admission.Turn[moduleState]
}

// enters takes the turn of a frame.
func (s *session) enters() *frameTurn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &frameTurn{s, s.turns.Take()}
}

// admit is the state with which an item comes to a module; not ok where it waits for a frame before.
func (f *frameTurn) admit(module string, item any) (state moduleState, ok bool) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.of.turns.Enter(f.turn, module, item)
}

// answer notes what a module left of the frame, and returns items of others that may go on.
func (f *frameTurn) answer(module string, left moduleState) []admission.HeldItem[moduleState] {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.of.turns.Answer(f.turn, module, left)
}

// end lets the next frames go on without this one.
func (f *frameTurn) end() []admission.HeldItem[moduleState] {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.of.turns.End(f.turn)
}

// held is an item of the frame that waits for one before; nil for none.
func (f *frameTurn) held() *Item {
	if f == nil {
		return nil
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	it, _ := f.of.turns.Held(f.turn).(*Item)
	return it
}

// draw is for which of two generations the stream is while one is tried: all of its frames are for
// the same, since each would miss what the other has seen. Nothing is sent to both.
func (s *session) draw(trial any, to func() rollout.To) rollout.To {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried != trial {
		if s.tried, s.drawn = trial, to(); s.drawn == rollout.Shadow {
			s.drawn = rollout.Stable
		}
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
