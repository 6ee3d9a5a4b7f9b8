package executors

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// A batch ahead: an executor whose engine is a Stager and has its device for itself
// takes the next batch while one runs. It says shortly before the end of each that
// the next may come.

// deep is how many batches a cell of an executor holds that takes one ahead.
const deep = 2

// ahead says whether the executor takes a batch ahead. Where batches run side by
// side, one of them is always there already.
func (e *executor) ahead() bool {
	_, ok := e.cells.all[0].instance.(Stager)
	return ok && len(e.cells.all) == 1
}

// stage gives the good requests to the engine, which computes them once it is done
// with what it has. Nobody else uses the device, so their turn cannot come to
// somebody else.
func (e *executor) stage(c *cell, w *work) {
	if len(w.good) < len(w.items) || e.task.concurrency() > 1 || !e.device.alone() {
		return
	}
	if s, ok := c.instance.(Stager); ok {
		if answer, err := s.Stage(w.items); err == nil {
			w.staged = answer
		}
	}
}

// foretell calls soon shortly before the batch is expected to end.
func (e *executor) foretell(c *cell, b *attach.Batch, w *work, soon func(attach.Soon)) *time.Timer {
	expected := c.took.expect(len(w.good))
	if soon == nil || expected == 0 || !e.device.alone() {
		return nil
	}
	return time.AfterFunc(expected-lead(expected), func() { soon(attach.Soon{ID: b.ID, Compute: expected}) })
}

// staged waits for the answer to what an engine was given before.
type staged func(ctx context.Context) ([][]wire.Tensor, error)

// durations are how long batches of every size have lately taken: means over
// some tookWeight batches.
type durations struct{ means []time.Duration }

const tookWeight = 4

func (p *durations) learn(size int, took time.Duration) {
	for len(p.means) <= size {
		p.means = append(p.means, 0)
	}
	if p.means[size] == 0 {
		p.means[size] = took
		return
	}
	p.means[size] += (took - p.means[size]) / tookWeight
}

// expect is 0 where nothing is known.
func (p *durations) expect(size int) time.Duration {
	if size >= len(p.means) {
		return 0
	}
	return p.means[size]
}

// The lead with which the end of a batch is told: a share of it, within bounds. On
// an idle machine the next one is there after half a millisecond, but where all
// cores are used every hand-over takes longer. What arrives in the meantime waits
// for the batch after the next, hence no more.
const (
	leadShare = 8
	leadLeast = 500 * time.Microsecond
	leadMost  = 5 * time.Millisecond
)

func lead(expected time.Duration) time.Duration {
	return min(max(expected/leadShare, leadLeast), leadMost, expected/2)
}
