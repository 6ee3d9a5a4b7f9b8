package child

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// instance is a model in a child process.
type instance struct {
	*process
	at     int    // its place there
	module string // as errors name it
	closed atomic.Bool
}

// Signature is what the inner engine reported when the model was loaded.
func (in *instance) Signature() pipelines.Signature { return in.loaded[in.at].Signature }

// Memory is what the inner engine reported when the model was loaded.
func (in *instance) Memory() int64 { return in.loaded[in.at].Memory }

// AwaitEnd returns when the child has ended by itself.
func (in *instance) AwaitEnd(ctx context.Context) error {
	select {
	case <-in.Ended():
		return in.named(in.ended())
	case <-ctx.Done():
		return nil
	}
}

// Run computes a batch in the child.
func (in *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, wire.Errorf(wire.CodeCanceled, in.module, "%v", err)
	}
	if err := in.check(items); err != nil {
		return nil, err
	}
	h, err := in.run(ctx, in.options.RunTimeout, in.at, items)
	return in.answer(ctx, h, err)
}

// Stage sends a batch to the child, which computes it as soon as it is done with
// the one before. The error of a child that cannot take it now is of no interest:
// Run reports what is wrong.
func (in *instance) Stage(items [][]wire.Tensor) (func(context.Context) ([][]wire.Tensor, error), error) {
	if err := in.check(items); err != nil {
		return nil, err
	}
	h, err := in.send(in.at, items, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([][]wire.Tensor, error) {
		err := in.await(ctx, in.options.RunTimeout, h)
		return in.answer(ctx, h, err)
	}, nil
}

// check reports what is wrong before anything is sent.
func (in *instance) check(items [][]wire.Tensor) error {
	n := 0
	for _, item := range items {
		n += int(wire.DataSize(item))
	}
	switch {
	case in.closed.Load():
		return in.named(in.unavailable("it has been closed"))
	case !in.Alive():
		return in.named(in.ended())
	case n > in.options.MaxMessage:
		return wire.Errorf(wire.CodeInvalid, in.module, "a batch of %d bytes is more than the %d that engine %q takes; use smaller batches or raise MaxMessage",
			n, in.options.MaxMessage, in.engine)
	}
	return nil
}

// answer is the outcome of a batch; err means that the child is gone.
func (in *instance) answer(ctx context.Context, h *held, err error) ([][]wire.Tensor, error) {
	var invalid *wire.Error
	switch {
	case errors.As(err, &invalid): // it was never sent
		return nil, in.named(invalid)
	case err != nil:
		return nil, in.named(in.gone(ctx, err))
	}
	e := wire.Errorf(wire.CodeUnavailable, "", "child: a message of kind %d in answer to a batch", h.answer.kind)
	switch {
	case h.answer.kind == kindResult && h.damaged == nil:
		if in.Cause() != nil { // the answer came as the child was being killed
			in.close()
		}
		return h.results, nil
	case h.answer.kind == kindResult:
		e.Reason = h.damaged.Error()
	case h.answer.kind == kindFailed:
		e = h.answer.failure()
	}
	if e.Code == wire.CodeUnavailable || in.Cause() != nil {
		in.close()
	}
	if e.Stage == "" {
		e.Stage = in.module
	}
	return nil, e
}

// named adds this model's name to an error.
func (in *instance) named(e *wire.Error) error {
	own := *e
	own.Stage = in.module
	return &own
}

// Close gives the model up, and ends the child with the last of those in it. A batch
// in flight fails.
func (in *instance) Close() error {
	if !in.closed.Swap(true) && in.open.Add(-1) == 0 {
		in.close()
	}
	return nil
}

// maxHeld is how many batches a child holds at most: the one that it computes, and
// the next.
const maxHeld = 2

// errFull means that the child holds as many batches as it may.
var errFull = errors.New("child: a batch is computed and another waits")

// line is what a child holds, in the order in which it answers. Each batch has a
// part of the shared memory for itself until its results have been taken out.
type line struct {
	reading sync.Mutex // by one caller at a time, which also reads the answers for others

	mu    sync.Mutex // of what follows, and of sending; may be taken while reading is held
	queue []*held
	taken [maxHeld]bool // parts
}

// held is a batch that the child has been sent. What is not its part and size is
// under line.reading.
type held struct {
	part, items int
	done        bool // it is answered
	answer      message
	results     [][]wire.Tensor
	damaged     error // the results cannot be read
}

// send gives the child a batch for one of its models. With ahead, it does so only where that
// cannot block: where the pipe holds the message.
func (p *process) send(model int, items [][]wire.Tensor, ahead bool) (*held, error) {
	l := &p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	part := slices.Index(l.taken[:], false)
	if part < 0 {
		return nil, errFull
	}
	columns, err := p.shared.put(part, items)
	switch {
	case errors.Is(err, os.ErrClosed):
		return nil, err
	case err != nil:
		return nil, wire.Errorf(wire.CodeInvalid, p.module, "%v", err)
	}
	p.conn.begin(kindRun)
	p.conn.sending = (&heads{model, part, len(items), columns}).append(p.conn.sending)
	if ahead && len(p.conn.sending) > readSize {
		return nil, errFull
	}
	if err := p.conn.send(); err != nil {
		return nil, err
	}
	h := &held{part: part, items: len(items)}
	l.taken[part] = true
	l.queue = append(l.queue, h)
	return h, nil
}

// run sends a batch and waits for its answer.
func (p *process) run(ctx context.Context, within time.Duration, model int, items [][]wire.Tensor) (h *held, err error) {
	p.line.reading.Lock()
	defer p.line.reading.Unlock()
	err = p.timed(ctx, within, func() error {
		if h, err = p.send(model, items, false); err != nil {
			return err
		}
		return p.readUntil(h)
	})
	return h, err
}

// await waits for the answer to a batch that was sent.
func (p *process) await(ctx context.Context, within time.Duration, h *held) error {
	p.line.reading.Lock()
	defer p.line.reading.Unlock()
	if h.done {
		return nil
	}
	return p.timed(ctx, within, func() error { return p.readUntil(h) })
}

// readUntil reads answers until that to the batch has come.
func (p *process) readUntil(h *held) error {
	for !h.done {
		answer, err := p.conn.receive()
		if err != nil {
			return err
		}
		first := p.line.first()
		if first == nil {
			return errors.New("child: an answer to no batch")
		}
		first.done, first.answer = true, answer
		if answer.kind == kindResult {
			first.results, first.damaged = p.shared.get(first.items, answer.body)
		}
		p.line.leave(first)
	}
	return nil
}

// first is the batch that is answered next; nil when there is none.
func (l *line) first() *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

// leave lets go of the first batch and its memory.
func (l *line) leave(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.Delete(l.queue, 0, 1)
	l.taken[h.part] = false
}

// put writes a batch into its part; columns are its positions.
func (s *shared) put(part int, items [][]wire.Tensor) (columns [][]rows, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		return nil, os.ErrClosed
	}
	to := s.requests(part)
	return to.put(items)
}

// get takes the results of so many items out of the memory.
func (s *shared) get(items int, body []byte) ([][]wire.Tensor, error) {
	var h heads
	if err := h.parse(body); err != nil || h.items != items {
		return nil, errDamaged
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(items, h.columns, true)
}
