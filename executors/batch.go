package executors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// leastStuck is the least time after which an engine is given up that does not answer: a
// pause of the whole machine is no reason to load anything again. As long again it has to
// heed the end of its context; one that does not is left behind.
const leastStuck = time.Second

var errStuck = errors.New("the engine takes far longer than its profile")

// reply is a message with its result, made in one piece.
type reply struct {
	message attach.Message
	result  attach.Result
}

// run computes one batch: check, wait for the device, compute. crash is set
// when the engine is gone, with this batch or while it waited. soon is called shortly before
// the end where the engine may take the next batch by then; nil where it may not.
func (e *executor) run(ctx context.Context, c *lane, b *attach.Batch, soon func(attach.Soon)) (r *reply, crash error) {
	r = &reply{result: attach.Result{ID: b.ID}}
	r.message.Result = &r.result
	info := BatchInfo{Executor: e.task.Slot.Executor, ID: b.ID, Size: len(b.Items), Due: b.Due}
	w := e.examine(c, b)
	ctx, done := WithMemory(ctx, e.host.Memory)
	defer done()
	if len(w.good) > 0 {
		e.compute(ctx, c, b, w, soon, &info)
	}
	w.report(&r.result)
	r.result.Behind = w.behind
	info.Failed, info.Err = w.failed()
	if w.crash != nil {
		crash, r.result.Away = w.crash, true
	}
	r.result.Waited, r.result.Compute = info.Waited, info.Compute
	e.count(info)
	if e.observer.BatchEnd != nil {
		e.observer.BatchEnd(info)
	}
	return r, crash
}

// examine keeps from the engine what would crash it: a batch of the wrong size,
// and requests with inputs of the wrong number, datatype, shape or length. It
// also answers for an engine that is gone.
func (e *executor) examine(c *lane, b *attach.Batch) *work {
	w := &work{items: b.Items, apart: b.Apart && len(b.Items) > 1}
	at := e.of(b)
	if at < 0 {
		w.err = wire.Errorf(wire.CodeInvalid, "", "a batch of module %q, which the executor does not run", b.Module)
		return w
	}
	w.resident, w.at = &e.residents[at], at
	module := w.module
	switch {
	case c.instances == nil:
		w.err = wire.Errorf(wire.CodeUnavailable, module, "the engine is gone; the executor is stopping")
		return w
	case len(b.Items) < 1 || len(b.Items) > w.model.MaxBatch:
		w.err = wire.Errorf(wire.CodeInvalid, module, "a batch of %d requests, but the executor takes 1 to %d", len(b.Items), w.model.MaxBatch)
		return w
	}
	if w.good = w.few[:0]; len(b.Items) > len(w.few) {
		w.good = make([]int, 0, len(b.Items))
	}
	for i, inputs := range b.Items {
		if err := Check(w.signature.Inputs, inputs); err != nil {
			w.fail(i, wire.Errorf(wire.CodeInvalid, module, "%v", err))
			continue
		}
		w.good = append(w.good, i)
	}
	if len(w.good) == 0 {
		w.answers = make([][]wire.Tensor, len(w.items))
	}
	return w
}

// work is what becomes of a batch's requests.
type work struct {
	*resident     // that computes them
	at        int // its place

	items   [][]wire.Tensor
	good    []int  // requests to compute
	staged  staged // gives their answers where the engine has them already
	answers [][]wire.Tensor
	errs    []*wire.Error // nil as long as no request has failed by itself
	err     *wire.Error   // of all of them
	crash   *wire.Error   // the engine is gone
	apart   bool          // each is computed by itself
	begun   int           // of those computed each by itself
	behind  int           // the last, which were not begun because the engine was gone

	few [4]int // room for the good requests of a small batch
}

// fail notes the error of one request.
func (w *work) fail(i int, err *wire.Error) {
	if w.errs == nil {
		w.errs = make([]*wire.Error, len(w.items))
	}
	w.errs[i] = err
}

// report puts answers and errors into the result. The error of a batch of one
// is that of the batch.
func (w *work) report(r *attach.Result) {
	switch {
	case w.err != nil:
		r.Err = w.err
	case w.errs != nil && len(w.items) == 1:
		r.Err = w.errs[0]
	default:
		r.Items, r.Errs = w.answers, w.errs
	}
}

// failed is the number of requests without an answer, and an error of one.
func (w *work) failed() (n int, first *wire.Error) {
	if w.err != nil {
		return len(w.items), w.err
	}
	for _, err := range w.errs {
		if err != nil {
			if n++; first == nil {
				first = err
			}
		}
	}
	return n, first
}

// compute has the device for itself while the engine runs.
func (e *executor) compute(ctx context.Context, c *lane, b *attach.Batch, w *work, soon func(attach.Soon), info *BatchInfo) {
	begin := time.Now()
	e.stage(c, w)
	waited, err := e.device.Acquire(ctx, &e.turn, b.Due)
	if err != nil {
		if w.staged != nil {
			_, _ = w.staged(ctx)
		}
		w.failGood(wire.Errorf(wire.CodeUnavailable, w.module, "the executor stopped while the batch waited for %s", e.task.Slot.Device))
		return
	}
	defer e.device.Release()
	if waited {
		start := time.Now()
		info.Waited, begin = start.Sub(begin), start
	}
	if e.observer.BatchBegin != nil {
		e.observer.BatchBegin(*info)
	}
	announcement := e.announceEnd(c, b, w, soon)
	if crash := c.lost; crash != nil {
		w.failGood(crash) // to be tried elsewhere, before this one is back
	} else if e.computeBatch(ctx, c, w); w.crash != nil {
		c.lost = w.crash
		c.crashes++
	}
	info.Compute = time.Since(begin)
	if announcement != nil {
		announcement.Stop()
	}
	if w.err == nil && w.errs == nil {
		c.crashes = 0
		c.took[w.at].Learn(len(w.good), info.Compute)
	}
	e.device.Charge(len(w.good), info.Compute)
}

// computeBatch computes the good requests as one batch. Where one of them may be
// what is wrong with it, or has cost an engine, each is computed by itself, once.
func (e *executor) computeBatch(ctx context.Context, c *lane, w *work) {
	if w.apart {
		e.computeEach(ctx, c, w)
		return
	}
	items := w.items
	if len(w.good) < len(items) {
		items = make([][]wire.Tensor, len(w.good))
		for k, i := range w.good {
			items[k] = w.items[i]
		}
	}
	answers, err := e.attempt(ctx, c, w, items, w.staged)
	switch {
	case err == nil && len(items) == len(w.items):
		w.answers = answers
	case err == nil:
		w.answers = make([][]wire.Tensor, len(w.items))
		for k, i := range w.good {
			w.answers[i] = answers[k]
		}
	case len(items) > 1 && byOneRequest(err):
		e.computeEach(ctx, c, w)
	default:
		w.failGood(err)
	}
}

// failGood fails all good requests.
func (w *work) failGood(err *wire.Error) {
	if err.Code == wire.CodeUnavailable {
		w.crash = err
	}
	if len(w.good) == len(w.items) {
		w.err = err
		return
	}
	w.answers = make([][]wire.Tensor, len(w.items))
	for _, i := range w.good {
		w.fail(i, err)
	}
}

// byOneRequest is true for an error that one of the requests may have caused.
func byOneRequest(err *wire.Error) bool {
	return err.Code == wire.CodeInvalid || err.Code == wire.CodeInternal || err.Code == wire.CodeOverloaded
}

// computeEach computes each request by itself, so that only those fail that are
// wrong in themselves. Where the engine is lost over one of them, those behind are not begun.
func (e *executor) computeEach(ctx context.Context, c *lane, w *work) {
	w.answers = make([][]wire.Tensor, len(w.items))
	for _, i := range w.good {
		if w.crash != nil {
			w.fail(i, w.crash)
			w.behind = len(w.items) - w.begun
			continue
		}
		w.begun = i + 1
		answers, err := e.attempt(ctx, c, w, w.items[i:i+1], nil)
		if err == nil {
			w.answers[i] = answers[0]
			continue
		}
		w.fail(i, err)
		if err.Code == wire.CodeUnavailable {
			w.crash = err
		}
	}
}

// attempt runs the engine, or waits for what it was given before, and holds it to
// its signature. An engine that takes far longer than its profile is lost.
func (e *executor) attempt(ctx context.Context, c *lane, w *work, items [][]wire.Tensor, given staged) ([][]wire.Tensor, *wire.Error) {
	run := given
	if run == nil {
		instance := c.instances[w.at]
		run = func(ctx context.Context) ([][]wire.Tensor, error) { return instance.Run(ctx, items) }
	}
	answers, err := e.runInTime(ctx, c, w, len(items), run)
	if err == nil {
		err = checkAnswers(w.signature, answers, len(items))
	}
	if err != nil {
		return nil, failure(w.module, err)
	}
	return answers, nil
}

// runInTime gives the engine up when it is stuck.
func (e *executor) runInTime(ctx context.Context, c *lane, w *work, size int, run staged) ([][]wire.Tensor, error) {
	limit := w.slowest.Stuck(size)
	if limit == 0 { // nothing is known of it
		return e.runRecovered(ctx, w, run)
	}
	limit = max(limit, leastStuck)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errStuck)
	defer cancel()
	var answers [][]wire.Tensor
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answers, err = e.runRecovered(ctx, w, run)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		heeds := time.NewTimer(leastStuck)
		defer heeds.Stop()
		select {
		case <-ended:
		case <-heeds.C:
			c.leaveBehind(w.at, ended)
			return nil, e.stuck(ctx, w, limit)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, e.stuck(ctx, w, limit)
	}
	return answers, err
}

func (e *executor) stuck(ctx context.Context, w *work, limit time.Duration) error {
	if cause := context.Cause(ctx); cause != errStuck {
		return wire.Errorf(wire.CodeUnavailable, w.module, "the batch was given up: %v", cause)
	}
	return wire.Errorf(wire.CodeUnavailable, w.module,
		"engine %q has not answered within %v, far longer than its profile, and is replaced; find out which request it hangs over, or measure it again with harpagon profile --again",
		w.engine.Name(), limit)
}

// runRecovered turns a panic of an engine in this process into its loss: what state
// it is in cannot be known.
func (e *executor) runRecovered(ctx context.Context, w *work, run staged) (answers [][]wire.Tensor, err error) {
	defer func() {
		if p := recover(); p != nil {
			answers, err = nil, wire.Errorf(wire.CodeUnavailable, w.module, "engine %q panicked: %v", w.engine.Name(), p)
		}
	}()
	return run(ctx)
}

// leaveBehind notes that an instance still computes although it was given up.
func (c *lane) leaveBehind(at int, ended <-chan struct{}) {
	if c.behind == nil {
		c.behind = make(map[int]<-chan struct{})
	}
	c.behind[at] = ended
}

// closeInstances closes what the lane has loaded; what is still at work is closed once it
// has ended.
func (c *lane) closeInstances(failed func(error)) {
	for at, one := range c.instances {
		shut := func() {
			if err := one.Close(); err != nil {
				failed(err)
			}
		}
		if ended := c.behind[at]; ended != nil {
			go func() { <-ended; shut() }()
			continue
		}
		shut()
	}
	c.behind = nil
}

// Durations are how long batches of every size have lately taken: means over
// some tookWeight batches.
type Durations struct{ means []time.Duration }

const tookWeight = 4

// Learn records a batch of so many requests.
func (p *Durations) Learn(size int, took time.Duration) {
	for len(p.means) <= size {
		p.means = append(p.means, 0)
	}
	if p.means[size] == 0 {
		p.means[size] = took
		return
	}
	p.means[size] += (took - p.means[size]) / tookWeight
}

// Expect is how long the next of a size takes; 0 where nothing is known.
func (p *Durations) Expect(size int) time.Duration {
	if size >= len(p.means) {
		return 0
	}
	return p.means[size]
}

// The lead of Soon before the end of a batch: a share of it, within bounds. On an idle machine
// the next one arrives after half a millisecond, but where all cores are used every hand-over
// takes longer. What arrives in the meantime waits for the batch after the next, hence no more.
const (
	leadShare = 8
	leadLeast = 500 * time.Microsecond
	leadMost  = 5 * time.Millisecond
)

// lead is how long before its expected end the next batch is called for.
func lead(expected time.Duration) time.Duration {
	return min(max(expected/leadShare, leadLeast), leadMost, expected/2)
}

// MemoryBound is on the bytes that batches take. Take takes n of them until release is called, or
// returns a *wire.Error when they are too many.
type MemoryBound interface {
	Take(n int64) (release func(), err error)
}

// ReserveMemory takes n bytes of the host's MemoryBound for a batch, before they are used: until
// release is called, or else until the batch has ended and its answers were handed on.
// ctx is what the engine's Run was given.
func ReserveMemory(ctx context.Context, n int64) (release func(), err error) {
	h, ok := ctx.Value(holdKey{}).(*hold)
	if !ok || n <= 0 {
		return func() {}, nil
	}
	if release, err = h.of.Take(n); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, release)
	return release, nil
}

// holdKey is the key of a batch's hold in its context.
type holdKey struct{}

// hold is what a batch has reserved.
type hold struct {
	of  MemoryBound
	mu  sync.Mutex
	all []func()
}

// WithMemory lets a batch reserve of a MemoryBound until done is called; nil bounds nothing.
func WithMemory(ctx context.Context, m MemoryBound) (_ context.Context, done func()) {
	if m == nil {
		return ctx, func() {}
	}
	h := &hold{of: m}
	return context.WithValue(ctx, holdKey{}, h), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, release := range h.all {
			release()
		}
	}
}
