package child

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
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

// Signature is what the inner engine said when the model was loaded.
func (in *instance) Signature() pipelines.Signature { return in.loaded[in.at].Signature }

// Memory is what the inner engine said when the model was loaded.
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
	switch n := itemsSize(items, nil); {
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

// answer is what became of a batch; err says that the child is gone.
func (in *instance) answer(ctx context.Context, h *held, err error) ([][]wire.Tensor, error) {
	var invalid *wire.Error
	switch {
	case errors.As(err, &invalid): // it was never sent
		return nil, in.named(invalid)
	case err != nil:
		return nil, in.named(in.gone(ctx, err))
	}
	e := wire.Errorf(wire.CodeUnavailable, "", "child: a frame of kind %d in answer to a batch", h.kind)
	switch {
	case h.kind == kindResult && h.damaged == nil:
		if in.Cause() != nil { // the answer came as the child was being killed
			in.close()
		}
		return h.results, nil
	case h.kind == kindResult:
		e.Reason = h.damaged.Error()
	case h.kind == kindFailed:
		e = failure(h.body)
	}
	if e.Code == wire.CodeUnavailable || in.Cause() != nil {
		in.close()
	}
	if e.Stage == "" {
		e.Stage = in.module
	}
	return nil, e
}

// named says of an error that it is about this model.
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

// endOfLine is true for the errors that the end of the other side causes.
func endOfLine(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) || isBroken(err)
}

// maxHeld is how many batches a child holds at most: the one that it computes, and
// the next.
const maxHeld = 2

// errFull says that the child holds as many batches as it may.
var errFull = errors.New("child: a batch is computed and another waits")

// line is what a child holds, in the order in which it answers. Each batch has a
// part of the shared memory for itself until its results have been taken out.
type line struct {
	reading sync.Mutex // by one at a time, who also reads the answers of others

	mu      sync.Mutex // of what follows, and of sending; may be taken while reading is held
	queue   []*held
	buffers [maxHeld]frameBuffer
}

// held is a batch that the child has been sent. What is not its part and buffer is
// under line.reading.
type held struct {
	part    int
	done    bool // it is answered
	kind    kind
	body    []byte
	results [][]wire.Tensor
	damaged error // the results cannot be read
}

// frameBuffer is the memory in which a frame is made, kept for the next.
type frameBuffer struct {
	taken  bool
	frame  []byte
	places []int
}

// modelSize is how many bytes of a batch's frame say which of the child's models it is
// for.
const modelSize = 4

// send gives the child a batch for one of its models. With ahead, it does so only where nothing can
// block: the tensors lie in shared memory, and the pipe holds the rest.
func (p *process) send(model int, items [][]wire.Tensor, ahead bool) (*held, error) {
	l := &p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	part := slices.IndexFunc(l.buffers[:], func(d frameBuffer) bool { return !d.taken })
	if part < 0 {
		return nil, errFull
	}
	d := &l.buffers[part]
	if err := p.pack(d, part, model, items); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, p.module, "%v", err)
	}
	if ahead && (p.shared == nil || len(d.frame) > readSize) {
		return nil, errFull
	}
	if err := writeFrame(p.requests, d.frame, p.options.MaxMessage); err != nil {
		return nil, err
	}
	h := &held{part: part}
	d.taken = true
	l.queue = append(l.queue, h)
	return h, nil
}

// pack makes the frame of a batch, with the tensors in the shared memory as far
// as there is room.
func (p *process) pack(d *frameBuffer, part, model int, items [][]wire.Tensor) (err error) {
	var places []int
	if p.shared != nil {
		p.shared.mu.Lock()
		to := p.shared.requests(part)
		if places = to.place(d.places, items); places != nil {
			d.places = places
		}
		p.shared.mu.Unlock()
	}
	frame := slices.Grow(startFrame(d.frame, runKinds[part]), modelSize+itemsSize(items, places))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(model))
	if frame, err = appendItems(frame, items, places); err == nil {
		d.frame = frame
	}
	return err
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
		k, body, err := p.in.read()
		if err != nil {
			return err
		}
		first := p.line.first()
		if first == nil {
			return errors.New("child: an answer to no batch")
		}
		first.done, first.kind, first.body = true, k, body
		if k == kindResult {
			first.results, first.damaged = p.unpack(body)
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
	l.buffers[h.part].taken = false
}

// unpack reads a result, and takes it out of the shared memory.
func (p *process) unpack(body []byte) ([][]wire.Tensor, error) {
	if p.shared == nil {
		return new(parser).parse(body)
	}
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	results, err := (&parser{shared: p.shared.all}).parse(body)
	if err != nil {
		return nil, err
	}
	var from area
	from.all = p.shared.all
	from.take(results)
	return results, nil
}
