package child

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// instance is a model in a child process.
type instance struct {
	*models
	at     int    // its place there
	module string // as errors name it
	closed atomic.Bool
}

// Signature is what the inner engine said when the model was loaded.
func (in *instance) Signature() pipelines.Signature { return in.loaded[in.at].Signature }

// Memory is what the inner engine said when the model was loaded.
func (in *instance) Memory() int64 { return in.loaded[in.at].Memory }

// Run computes a batch in the child. When there is none any more it starts one
// first, within ctx.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, wire.Errorf(wire.CodeCanceled, in.module, "%v", err)
	}
	if err := in.check(items); err != nil {
		return nil, err
	}
	p, err := in.ready(ctx)
	if err != nil {
		return nil, in.named(err)
	}
	h, err := p.run(ctx, in.options.RunTimeout, in.at, items)
	return in.answer(ctx, p, h, err)
}

// Stage sends a batch to the child, which computes it as soon as it is done with
// the one before. The error of a child that cannot take it now is of no interest:
// Run says what is wrong.
func (in *instance) Stage(items [][]wire.Tensor) (func(context.Context) ([][]wire.Tensor, error), error) {
	if err := in.check(items); err != nil {
		return nil, err
	}
	p := in.current()
	if p == nil {
		return nil, in.named(in.gone("there is none now"))
	}
	h, err := p.send(in.at, items, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([][]wire.Tensor, error) {
		err := p.await(ctx, in.options.RunTimeout, h)
		return in.answer(ctx, p, h, err)
	}, nil
}

// check says what is wrong before anything is sent.
func (in *instance) check(items [][]wire.Tensor) error {
	if in.closed.Load() {
		return in.named(in.gone("it has been closed"))
	}
	if n := itemsSize(items, nil); n > in.options.MaxMessage {
		return wire.Errorf(wire.CodeInvalid, in.module, "a batch of %d bytes is more than the %d that engine %q takes; use smaller batches or raise MaxMessage",
			n, in.options.MaxMessage, in.engine)
	}
	return nil
}

// answer is what became of a batch; err says that the child is gone.
func (in *instance) answer(ctx context.Context, p *process, h *held, err error) ([][]wire.Tensor, error) {
	var invalid *wire.Error
	switch {
	case errors.As(err, &invalid): // it was never sent
		return nil, in.named(invalid)
	case err != nil:
		return nil, in.named(in.lost(p, p.gone(ctx, in.options.RunTimeout, err)))
	}
	switch h.kind {
	case kindResult:
		if h.damaged != nil {
			return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, in.module, "%v", h.damaged))
		}
		in.computed()
		if p.dead() { // the answer came as the child was being killed
			in.lost(p, nil)
		}
		return h.results, nil
	case kindFailed:
		e := failure(h.body)
		if e.Stage == "" {
			e.Stage = in.module
		}
		if e.Code == wire.CodeUnavailable || p.dead() {
			return nil, in.lost(p, e)
		}
		return nil, e
	}
	return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, in.module, "child: a frame of kind %d in answer to a batch", h.kind))
}

// named says of an error that it is about this model.
func (in *instance) named(err error) error {
	if e, ok := err.(*wire.Error); ok {
		own := *e
		own.Stage = in.module
		return &own
	}
	return err
}

// Close gives the model up, and ends the child with the last of those in it. A batch
// in flight fails.
func (in *instance) Close() error {
	if in.closed.Swap(true) {
		return nil
	}
	in.mu.Lock()
	in.open--
	p := in.process
	if in.open > 0 {
		p = nil
	} else {
		in.process = nil
	}
	in.mu.Unlock()
	if p != nil {
		p.close()
	}
	return nil
}

// endOfLine is true for the errors that the end of the other side causes.
func endOfLine(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) || isBroken(err)
}
