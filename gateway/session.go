package gateway

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/gob"
	"slices"
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
	mu     sync.Mutex
	turns  admission.Turns[moduleState]
	held   HeldBytes // by turns
	closed bool      // no more frames come in

	tried any // at which the stream was drawn for a generation, and for which
	drawn rollout.To
}

// frameTurn is the turn of a frame in its session.
type frameTurn struct {
	of   *session
	turn *admission.Turn[moduleState]
}

// newSession makes one of a stream that begins with what modules have kept elsewhere, where there is room.
func newSession(held HeldBytes, kept map[string]moduleState) *session {
	s := &session{held: held}
	var n int64
	for _, state := range kept {
		n += state.size()
	}
	if s.held.Grow(n) == nil {
		s.turns.Start(kept)
	}
	return s
}

// close reports that no more frames come in.
func (s *session) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.settle()
}

// settle gives back the bytes of what is not needed any more. session.mu is held.
func (s *session) settle() {
	var n int64
	for state := range s.turns.All() {
		n += state.size()
	}
	if s.closed && s.turns.Idle() {
		n = 0
	}
	s.held.Shrink(s.held.bytes - n)
}

func (m moduleState) size() (n int64) {
	for i := range m.of {
		n += int64(len(m.of[i].Data))
	}
	return n
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

// answer notes what a module left of the frame, and returns items of others that may go on; an error where
// there is no room to keep it.
func (f *frameTurn) answer(module string, left moduleState) ([]admission.HeldItem[moduleState], *wire.Error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if err, _ := f.of.held.Grow(left.size()).(*wire.Error); err != nil {
		err.Stage = module
		return nil, err
	}
	defer f.of.settle()
	return f.of.turns.Answer(f.turn, module, left), nil
}

// end lets the next frames go on without this one.
func (f *frameTurn) end() []admission.HeldItem[moduleState] {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	defer f.of.settle()
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

// State goes along to another gateway with the caller, since that of a gateway that is killed is gone: a frame that
// requests state is answered with what modules keep after it, and one that carries state begins a session with it.
// It is sealed under a key that gateways share, for its caller, pipeline and stream, so that it can be neither
// forged nor used for another stream.

// carried is what a module keeps of a stream, as it travels.
type carried struct {
	Module, By string
	Of         []wire.NamedTensor
}

// newSeal makes that of a key.
func newSeal(key []byte) cipher.AEAD {
	sum := sha256.Sum256(slices.Concat([]byte("state of streams\x00"), key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		panic(err) // the key is as long as one should be
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return seal
}

// carries is the state of a stream after a frame, for its caller to take along.
func carries(seal cipher.AEAD, stream string, f *frameTurn) wire.NamedTensor {
	f.of.mu.Lock()
	after := f.of.turns.After(f.turn)
	f.of.mu.Unlock()
	var all []carried
	for module, state := range after {
		all = append(all, carried{module, state.by, state.of})
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(all); err != nil {
		panic(err) // texts and numbers
	}
	data := seal.Seal(nil, nil, text.Bytes(), []byte(stream))
	return wire.NamedTensor{Name: wire.SequenceState, Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(len(data))}, Data: data}}
}

// carriedIn is the state that a caller has taken along; nil where no gateway has sealed it for this stream.
func carriedIn(seal cipher.AEAD, stream string, data []byte) map[string]moduleState {
	text, err := seal.Open(nil, nil, data, []byte(stream))
	var all []carried
	if err != nil || gob.NewDecoder(bytes.NewReader(text)).Decode(&all) != nil {
		return nil
	}
	state := make(map[string]moduleState)
	for _, c := range all {
		state[c.Module] = moduleState{c.By, c.Of}
	}
	return state
}
