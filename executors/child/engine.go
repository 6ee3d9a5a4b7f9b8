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
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// New returns an engine that runs the engine called inner in child processes, one
// for each instance or for those that are loaded together (executors.Together). It
// has the inner engine's name.
func New(inner string, o Options) executors.Engine {
	return &engine{inner: inner, options: o.withDefaults()}
}

type engine struct {
	inner   string
	options Options

	mu      sync.Mutex
	version string // once known
}

// Name is the inner engine's.
func (e *engine) Name() string { return e.inner }

// Version is the inner engine's with a mark that it runs in a child, which
// takes its own time. It asks a child, once; "unknown" says that none starts.
func (e *engine) Version() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == "" && e.options.Version != "" {
		e.version = mark(e.options.Version)
	}
	if e.version != "" {
		return e.version
	}
	p, err := start(context.Background(), e.inner, "", "", &e.options)
	if err != nil {
		return "unknown"
	}
	defer p.close()
	version, ok := p.version(e.inner)
	if !ok {
		return "unknown"
	}
	e.version = mark(version)
	return e.version
}

func mark(version string) string { return version + " (child 2)" }

// Load starts a child and loads the model there. ctx bounds the loading only;
// the child lives until Close.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	all, err := e.LoadTogether(ctx, []executors.Model{m})
	if err != nil {
		return nil, err.(*executors.TogetherError).Err
	}
	return all[0], nil
}

// LoadTogether starts one child for all the models and loads them there, one after
// the other.
func (e *engine) LoadTogether(ctx context.Context, all []executors.Model) ([]executors.Instance, error) {
	h := &models{engine: e.inner, options: &e.options, all: all, open: len(all)}
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	instances := make([]executors.Instance, len(all))
	for i := range all {
		instances[i] = &instance{models: h, at: i, module: all[i].Module.Name}
	}
	return instances, nil
}

// Options say how children are started. The zero value is ready to use.
type Options struct {
	Command []string // program and arguments; empty: this program without arguments

	// Env is added to this process's environment. GOMAXPROCS=1 comes before it:
	// a device of hardware "cpu" is one core.
	Env []string

	// Output gets what children print, line by line, each with a prefix that
	// names engine and module; nil means os.Stderr. Children of one engine may
	// write at once, so it must be safe for concurrent use, as a file is.
	Output io.Writer

	StartTimeout time.Duration // until a child says hello; 0 means 20 s
	LoadTimeout  time.Duration // of loading and warming up; 0 means 5 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	CloseTimeout time.Duration // until a child that was told to end is killed; 0 means 2 s

	Retry       executors.Backoff // between attempts to load again
	MaxAttempts int               // failures to load in a row before an instance gives up; 0 means 6
	MaxMessage  int               // bytes of one batch or result; 0 means 256 MiB
	Version     string            // of the inner engine; empty: a child is asked once
	Pipe        bool              // send tensors through the pipes even where memory can be shared
}

// The defaults of Options.
const (
	defaultStartTimeout = 20 * time.Second
	defaultLoadTimeout  = 5 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultCloseTimeout = 2 * time.Second
	defaultMaxAttempts  = 6
	defaultMaxMessage   = 256 << 20
	largestMaxMessage   = 1<<31 - 1
)

func (o Options) withDefaults() Options {
	o.StartTimeout = orElse(o.StartTimeout, defaultStartTimeout)
	o.LoadTimeout = orElse(o.LoadTimeout, defaultLoadTimeout)
	o.RunTimeout = orElse(o.RunTimeout, defaultRunTimeout)
	o.CloseTimeout = orElse(o.CloseTimeout, defaultCloseTimeout)
	o.MaxAttempts = orElse(o.MaxAttempts, defaultMaxAttempts)
	o.MaxMessage = min(orElse(o.MaxMessage, defaultMaxMessage), largestMaxMessage)
	return o
}

func orElse[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// hello is a child's first word.
type hello struct {
	Protocol int
	Engines  []engineInfo
}

type engineInfo struct{ Name, Version string }

type loadRequest struct {
	Engine     string
	Model      executors.Model
	MaxMessage int
	Shared     int // bytes of the shared memory; 0: there is none
}

type loadReply struct {
	Signature pipelines.Signature
	Memory    int64
	Shared    bool // the child sees the shared memory
}

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
