package sdk

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/wire"
)

// stand is where a Stream is served, of several gateways, and what modules keep of it. A gateway that is killed
// takes what it has of a stream with it, so every answer brings that along, and the next frame takes it to
// another gateway. While the stream moves, one frame at a time is under way: the next one needs what that leaves.
type stand struct {
	mu    sync.Mutex
	begun bool
	at    Connection // that has served last
	sure  bool       // it has answered, and has not failed since
	moves int
	frame int    // the latest that was answered
	state []byte // after that
}

// standing is a frame of a Stream.
type standing struct {
	of     *stand
	frame  int
	before <-chan struct{} // closed when the one before is over
}

type standingKey struct{}

func standingOf(ctx context.Context) *standing {
	f, _ := ctx.Value(standingKey{}).(*standing)
	return f
}

// errMoved is what an answer is worth that was made where the stream is not any more: what the modules have seen
// elsewhere meanwhile it has not.
var errMoved = errors.New("its stream has gone on at another gateway")

// infer sends a frame to a gateway. One that was started meanwhile has nothing of the stream, and gets it.
func (f *standing) infer(ctx context.Context, t Connection, q *wire.InferRequest) (*wire.InferResponse, error) {
	for again := true; ; again = false {
		state, moves, begins, err := f.goTo(ctx, t)
		if err != nil {
			return nil, err
		}
		with := *q
		with.Frame.First = with.Frame.First || begins
		with.Inputs = append(slices.Clip(q.Inputs), wire.NamedTensor{Name: wire.SequenceState, Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(len(state))}, Data: state}})
		r, err := t.Infer(ctx, &with)
		if err = f.came(t, moves, r, err); err == nil || !again || !lacksState(err) {
			return r, err
		}
	}
}

func lacksState(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Cause == wire.CauseNoState
}

// goTo is with which state the frame goes to a gateway: with none where its stream is there. It begins
// a stream where nothing was answered elsewhere.
func (f *standing) goTo(ctx context.Context, t Connection) (state []byte, moves int, begins bool, err error) {
	s := f.of
	s.mu.Lock()
	if !s.begun {
		s.begun, s.at, s.sure = true, t, true
	}
	if s.at != t || !s.sure {
		s.mu.Unlock()
		select {
		case <-f.before:
		case <-ctx.Done():
			return nil, 0, false, ctx.Err()
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.at == t && s.sure {
		return nil, s.moves, false, nil
	}
	s.at, s.sure = t, false
	s.moves++
	return s.state, s.moves, s.state == nil, nil
}

// came takes the state out of an answer.
func (f *standing) came(t Connection, moves int, r *wire.InferResponse, err error) error {
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer *wire.Error
	switch {
	case moves != s.moves && err == nil:
		return Unreachable(t.String(), false, errMoved)
	case moves != s.moves:
		return err
	case lacksState(err):
		s.sure = false
		return err
	case err != nil:
		s.sure = s.sure && errors.As(err, &answer) && !answer.Starting
		return err
	}
	s.sure = true
	if at := slices.IndexFunc(r.Outputs, func(o wire.NamedTensor) bool { return o.Name == wire.SequenceState }); at >= 0 {
		if f.frame >= s.frame {
			s.frame, s.state = f.frame, r.Outputs[at].Data
		}
		r.Outputs = slices.Delete(r.Outputs, at, at+1)
	}
	return nil
}

// first is which of the gateways the stream is at; -1 for none yet.
func (s *stand) first(peers []*peer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(peers, func(p *peer) bool { return p.Connection == s.at })
}
