package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/wire"
)

// models are those that one child process holds, and the next one after a crash.
type models struct {
	engine  string
	options *Options
	all     []executors.Model
	loaded  []loadReply // what the first child said of each

	starting sync.Mutex // of a child in the place of one that is gone
	mu       sync.Mutex
	process  *process  // nil while there is none
	open     int       // instances that have not been closed
	failures int       // since the last batch that was computed
	rest     time.Time // no new child before
	last     error     // why the last one is gone
}

// label names the models to people who read what the child prints.
func (h *models) label() string {
	name := h.all[0].Module.Name
	if more := len(h.all) - 1; more > 0 {
		name += fmt.Sprintf(" and %d more", more)
	}
	return name
}

// start starts a child and loads the models in it. The error is a
// *executors.TogetherError.
func (h *models) start(ctx context.Context) error {
	p, err := start(ctx, h.engine, h.label(), h.all[0].Device, h.options)
	if err != nil {
		return &executors.TogetherError{Err: err}
	}
	replies := make([]loadReply, len(h.all))
	for i := range h.all {
		if replies[i], err = h.load(ctx, p, &h.all[i]); err != nil {
			p.close()
			return &executors.TogetherError{At: i, Err: err}
		}
	}
	if !replies[0].Shared {
		p.shared.close()
		p.shared = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == 0 {
		p.close()
		return &executors.TogetherError{Err: h.gone("it has been closed")}
	}
	h.process = p
	if h.loaded == nil {
		h.loaded = replies
	}
	return nil
}

func (h *models) load(ctx context.Context, p *process, m *executors.Model) (reply loadReply, err error) {
	body, err := json.Marshal(loadRequest{Engine: h.engine, Model: *m, MaxMessage: h.options.MaxMessage, Shared: p.shared.size()})
	if err != nil {
		return reply, fmt.Errorf("child: module %q: %w", m.Module.Name, err)
	}
	k, body, err := p.call(ctx, h.options.LoadTimeout, append(startFrame(nil, kindLoad), body...))
	if err != nil {
		e := p.gone(ctx, h.options.LoadTimeout, err)
		e.Reason = fmt.Sprintf("loading module %q: %s", m.Module.Name, e.Reason)
		return reply, e
	}
	switch {
	case p.dead():
		return reply, p.gone(ctx, h.options.LoadTimeout, io.EOF)
	case k == kindFailed:
		e := failure(body)
		if e.Code == wire.CodeInternal && e.Stage == "" {
			return reply, errors.New(e.Reason)
		}
		return reply, e
	case k != kindLoaded:
		return reply, fmt.Errorf("child: a frame of kind %d in answer to a model", k)
	}
	return reply, json.Unmarshal(body, &reply)
}

func failure(body []byte) *wire.Error {
	e := new(wire.Error)
	if err := json.Unmarshal(body, e); err != nil {
		return wire.Errorf(wire.CodeInternal, "", "child: a damaged error: %v", err)
	}
	return e
}

// computed notes that a child does its work.
func (h *models) computed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.last = 0, nil
}

// lost lets go of a child; the next Run starts another. That it is gone counts
// once, however many batches it held.
func (h *models) lost(p *process, why *wire.Error) error {
	h.mu.Lock()
	first := h.process == p
	if first {
		h.process = nil
	}
	h.mu.Unlock()
	p.close()
	if why == nil {
		return nil
	}
	if first && why.Code != wire.CodeCanceled {
		h.failed(why)
	}
	return why
}

func (h *models) failed(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.last = why
	h.rest = time.Now().Add(h.options.Retry.After(h.failures))
}

// ready returns the child, after starting one where there is none.
func (h *models) ready(ctx context.Context) (*process, error) {
	if p := h.current(); p != nil {
		return p, nil
	}
	h.starting.Lock()
	defer h.starting.Unlock()
	if p := h.current(); p != nil {
		return p, nil
	}
	h.mu.Lock()
	failures, rest, last := h.failures, h.rest, h.last
	h.mu.Unlock()
	if failures >= h.options.MaxAttempts {
		return nil, h.gone(fmt.Sprintf("it failed %d times in a row and is not started again; the last time: %v", failures, last))
	}
	timer := time.NewTimer(time.Until(rest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, h.gone(fmt.Sprintf("it is waiting to be started again after: %v", last))
	}
	if err := h.start(ctx); err != nil {
		if ctx.Err() == nil {
			h.failed(err)
		}
		return nil, h.gone(fmt.Sprintf("it could not be started again: %v", err))
	}
	if p := h.current(); p != nil {
		return p, nil
	}
	return nil, h.gone("it ended")
}

func (h *models) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

// gone says why there is no child; who asks adds the module.
func (h *models) gone(why string) *wire.Error {
	return wire.Errorf(wire.CodeUnavailable, "", "engine %q in a child process: %s", h.engine, why)
}
