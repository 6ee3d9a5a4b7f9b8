package sdk

import (
	"context"
	"errors"
	"strings"
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

// check asks all gateways at once whether they are there and take the token. One
// that is suffices.
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
	err = s.ask(ctx, func(ctx context.Context, t Connection) (err error) {
		r, err = t.Infer(ctx, q)
		return err
	})
	return r, err
}

// ask asks one gateway after the other until one answers with more than that it
// cannot serve now. A round without any answer is followed by another while there
// is time.
func (s *several) ask(ctx context.Context, do func(context.Context, Connection) error) error {
	began := time.Now()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		answered, err := s.round(ctx, do)
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

// round asks every gateway at most once. answered says that the error is the answer
// of one of them that is ready.
func (s *several) round(ctx context.Context, do func(context.Context, Connection) error) (answered bool, err error) {
	first := int(s.next.Add(1) % uint64(len(s.peers)))
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
