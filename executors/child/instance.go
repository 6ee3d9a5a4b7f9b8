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

	// Used by Run's one goroutine.
	failures int       // since the last batch that was computed
	rest     time.Time // no new child before
	last     error     // why the last one is gone

	mu      sync.Mutex
	process *process // nil while there is none
	closed  bool
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
	if n := itemsSize(items, nil); n > in.options.MaxMessage {
		return nil, wire.Errorf(wire.CodeInvalid, in.model.Module.Name, "a batch of %d bytes is more than the %d that engine %q takes; use smaller batches or raise MaxMessage",
			n, in.options.MaxMessage, in.engine)
	}
	p, err := in.ready(ctx)
	if err != nil {
		return nil, err
	}
	if p.frame, err = p.pack(items); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, in.model.Module.Name, "%v", err)
	}
	k, body, err := p.call(ctx, in.options.RunTimeout, p.frame)
	if err != nil {
		return nil, in.lost(p, p.gone(ctx, in.options.RunTimeout, err))
	}
	return in.answer(p, k, body)
}

func (in *instance) answer(p *process, k kind, body []byte) ([][]wire.Tensor, error) {
	switch k {
	case kindResult:
		results, err := p.unpack(body)
		if err != nil {
			return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, p.module, "%v", err))
		}
		in.failures, in.last = 0, nil
		if p.dead() { // the answer came as the child was being killed
			in.lost(p, nil)
		}
		return results, nil
	case kindFailed:
		e := failure(body)
		if e.Stage == "" {
			e.Stage = p.module
		}
		if e.Code == wire.CodeUnavailable || p.dead() {
			return nil, in.lost(p, e)
		}
		return nil, e
	}
	return nil, in.lost(p, wire.Errorf(wire.CodeUnavailable, p.module, "child: a frame of kind %d in answer to a batch", k))
}

// lost lets go of a child; the next Run starts another.
func (in *instance) lost(p *process, why *wire.Error) error {
	in.mu.Lock()
	if in.process == p {
		in.process = nil
	}
	in.mu.Unlock()
	p.close()
	if why == nil {
		return nil
	}
	if why.Code != wire.CodeCanceled {
		in.failed(why)
	}
	return why
}

func (in *instance) failed(why error) {
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
	if in.failures >= in.options.MaxAttempts {
		return nil, in.gone(fmt.Sprintf("it failed %d times in a row and is not started again; the last time: %v", in.failures, in.last))
	}
	timer := time.NewTimer(time.Until(in.rest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, in.gone(fmt.Sprintf("it is waiting to be started again after: %v", in.last))
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
