package executors

import (
	"context"
	"errors"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// Loopback opens both ends of a stream such as gateways and executors of a host talk
// over; it ends with ctx.
type Loopback func(ctx context.Context) (gateway, executor attach.Stream, err error)

// Compute answers items[i][j], input j of item i, as an engine does.
type Compute func(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error)

// RoundTrip leads to a Compute and back. It is used by one goroutine at a time.
type RoundTrip struct {
	near attach.Stream
	stop context.CancelFunc
	sent uint64
}

// OpenRoundTrip puts compute at the far end of what open gives; nil is a stream in memory.
func OpenRoundTrip(open Loopback, compute Compute) (*RoundTrip, error) {
	if open == nil {
		open = func(context.Context) (a, b attach.Stream, err error) {
			a, b = attach.Pipe()
			return a, b, nil
		}
	}
	life, stop := context.WithCancel(context.Background())
	near, far, err := open(life)
	if err != nil {
		stop()
		return nil, err
	}
	go serveRoundTrip(life, far, compute)
	return &RoundTrip{near: near, stop: stop}, nil
}

// serveRoundTrip answers batches until the stream ends.
func serveRoundTrip(ctx context.Context, far attach.Stream, compute Compute) {
	defer far.Close()
	for {
		m, err := far.Recv()
		if err != nil || m.Batch == nil {
			return
		}
		r := &attach.Result{ID: m.Batch.ID}
		r.Items, err = compute(ctx, m.Batch.Items)
		if err != nil && !errors.As(err, &r.Err) {
			r.Err = wire.Errorf(wire.CodeInternal, "", "%v", err)
		}
		if far.Send(&attach.Message{Result: r}) != nil {
			return
		}
	}
}

// Run sends a query of the items and waits for its answer.
func (w *RoundTrip) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	query, err := stack(items)
	if err != nil {
		return nil, err
	}
	rows := make([][]wire.Tensor, len(items))
	for _, t := range query {
		cut, err := wire.Rows(t)
		if err != nil {
			return nil, err
		}
		for i := range cut {
			rows[i] = append(rows[i], cut[i])
		}
	}
	w.sent++
	if err := w.near.Send(&attach.Message{Batch: &attach.Batch{ID: w.sent, Items: rows}}); err != nil {
		return nil, err
	}
	m, err := w.near.Recv()
	switch {
	case err != nil:
		return nil, err
	case m.Result == nil:
		return nil, errors.New("executors: what came back is no result")
	case m.Result.Err != nil:
		return nil, m.Result.Err
	}
	_, err = stack(m.Result.Items)
	return m.Result.Items, err
}

// stack is a query of the items: one tensor for each input or output.
func stack(items [][]wire.Tensor) ([]wire.Tensor, error) {
	all := make([]wire.Tensor, len(items[0]))
	for j := range all {
		column := make([]wire.Tensor, len(items))
		for i := range items {
			column[i] = items[i][j]
		}
		t, err := wire.Stack(column)
		if err != nil {
			return nil, err
		}
		all[j] = t
	}
	return all, nil
}

// Close ends the way.
func (w *RoundTrip) Close() error {
	w.stop()
	return w.near.Close()
}
