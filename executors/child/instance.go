package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// instance is a model in a child process, and in the next one after a crash.
type instance struct {
	engine  string
	options *Options
	model   executors.Model
	loaded  loadReply // what the first child said

	mu       sync.Mutex
	process  *process // nil while there is none
	closed   bool
	failures int       // since the last batch that was computed
	rest     time.Time // no new child before
	last     error     // why the last one is gone
}

// start starts a child and loads the model in it.
func (in *instance) start(ctx context.Context) error {
	p, err := start(ctx, in.engine, in.model, in.options)
	if err != nil {
		return err
	}
	reply, err := in.load(ctx, p)
	if err != nil {
		p.close()
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		p.close()
		return in.gone("it has been closed")
	}
	in.process = p
	if in.loaded.Signature.Outputs == nil {
		in.loaded = reply
	}
	return nil
}

func (in *instance) load(ctx context.Context, p *process) (reply loadReply, err error) {
	body, err := json.Marshal(loadRequest{Engine: in.engine, Model: in.model, MaxMessage: in.options.MaxMessage, Shared: p.shared.size()})
	if err != nil {
		return reply, fmt.Errorf("child: module %q: %w", in.model.Module.Name, err)
	}
	k, body, err := p.call(ctx, in.options.LoadTimeout, append(startFrame(nil, kindLoad), body...))
	if err != nil {
		e := p.gone(ctx, in.options.LoadTimeout, err)
		e.Reason = fmt.Sprintf("loading module %q: %s", in.model.Module.Name, e.Reason)
		return reply, e
	}
	switch {
	case p.dead():
		return reply, p.gone(ctx, in.options.LoadTimeout, io.EOF)
	case k == kindFailed:
		e := failure(body)
		if e.Code == wire.CodeInternal && e.Stage == "" {
			return reply, errors.New(e.Reason)
		}
		return reply, e
	case k != kindLoaded:
		return reply, fmt.Errorf("child: a frame of kind %d in answer to a model", k)
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return reply, err
	}
	if !reply.Shared {
		p.shared.close()
		p.shared = nil
	}
	return reply, nil
}

func failure(body []byte) *wire.Error {
	e := new(wire.Error)
	if err := json.Unmarshal(body, e); err != nil {
		return wire.Errorf(wire.CodeInternal, "", "child: a damaged error: %v", err)
	}
	return e
}

// Signature is what the inner engine said when the model was loaded.
func (in *instance) Signature() pipelines.Signature { return in.loaded.Signature }

// Memory is what the inner engine said when the model was loaded.
func (in *instance) Memory() int64 { return in.loaded.Memory }

// Run computes a batch in the child. When there is none any more it starts one
// first, within ctx.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, wire.Errorf(wire.CodeCanceled, in.model.Module.Name, "%v", err)
	}
	if err := in.check(items); err != nil {
		return nil, err
	}
	p, err := in.ready(ctx)
	if err != nil {
		return nil, err
	}
	h, err := p.run(ctx, in.options.RunTimeout, items)
	return in.answer(ctx, p, h, err)
}

// Stage sends a batch to the child, which computes it as soon as it is done with
// the one before. The error of a child that cannot take it now is of no interest:
// Run says what is wrong.
func (in *instance) Stage(items [][]wire.Tensor) (func(context.Context) ([][]wire.Tensor, error), error) {
	if err := in.check(items); err != nil {
		return nil, err
	}
	p, err := in.current()
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, in.gone("there is none now")
	}
	h, err := p.send(items, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([][]wire.Tensor, error) {
		err := p.await(ctx, in.options.RunTimeout, h)
		return in.answer(ctx, p, h, err)
	}, nil
}

func (in *instance) check(items [][]wire.Tensor) error {
	if n := itemsSize(items, nil); n > in.options.MaxMessage {
		return wire.Errorf(wire.CodeInvalid, in.model.Module.Name, "a batch of %d bytes is more than the %d that engine %q takes; use smaller batches or raise MaxMessage",
			n, in.options.MaxMessage, in.engine)
	}
	return nil
}

// answer is what became of a batch; err says that the child is gone.
func (in *instance) answer(ctx context.Context, p *process, h *held, err error) ([][]wire.Tensor, error) {
	var invalid *wire.Error
	switch {
	case errors.As(err, &invalid): // it was never sent
		return nil, invalid
	case err != nil:
		return nil, in.lost(p, p.gone(ctx, in.options.RunTimeout, err))
	}
	switch h.kind {
	case kindResult:
		if h.damaged != nil {
			return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, p.module, "%v", h.damaged))
		}
		in.computed()
		if p.dead() { // the answer came as the child was being killed
			in.lost(p, nil)
		}
		return h.results, nil
	case kindFailed:
		e := failure(h.body)
		if e.Stage == "" {
			e.Stage = p.module
		}
		if e.Code == wire.CodeUnavailable || p.dead() {
			return nil, in.lost(p, e)
		}
		return nil, e
	}
	return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, p.module, "child: a frame of kind %d in answer to a batch", h.kind))
}

// computed notes that a child does its work.
func (in *instance) computed() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failures, in.last = 0, nil
}

// lost lets go of a child; the next Run starts another. That it is gone counts
// once, however many batches it held.
func (in *instance) lost(p *process, why *wire.Error) error {
	in.mu.Lock()
	first := in.process == p
	if first {
		in.process = nil
	}
	in.mu.Unlock()
	p.close()
	if why == nil {
		return nil
	}
	if first && why.Code != wire.CodeCanceled {
		in.failed(why)
	}
	return why
}

func (in *instance) failed(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failures++
	in.last = why
	in.rest = time.Now().Add(in.options.Retry.After(in.failures))
}

// ready returns the child, after starting one where there is none.
func (in *instance) ready(ctx context.Context) (*process, error) {
	p, err := in.current()
	if p != nil || err != nil {
		return p, err
	}
	in.mu.Lock()
	failures, rest, last := in.failures, in.rest, in.last
	in.mu.Unlock()
	if failures >= in.options.MaxAttempts {
		return nil, in.gone(fmt.Sprintf("it failed %d times in a row and is not started again; the last time: %v", failures, last))
	}
	timer := time.NewTimer(time.Until(rest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, in.gone(fmt.Sprintf("it is waiting to be started again after: %v", last))
	}
	if err := in.start(ctx); err != nil {
		if ctx.Err() == nil {
			in.failed(err)
		}
		return nil, in.gone(fmt.Sprintf("it could not be started again: %v", err))
	}
	p, err = in.current()
	if p == nil && err == nil {
		err = in.gone("it ended")
	}
	return p, err
}

func (in *instance) current() (*process, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, in.gone("it has been closed")
	}
	return in.process, nil
}

func (in *instance) gone(why string) *wire.Error {
	return wire.Errorf(wire.CodeUnavailable, in.model.Module.Name, "engine %q in a child process: %s", in.engine, why)
}

// Close ends the child. A batch in flight fails.
func (in *instance) Close() error {
	in.mu.Lock()
	p := in.process
	in.process, in.closed = nil, true
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
