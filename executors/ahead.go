package executors

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// A batch ahead: an executor whose engine is a stager and has its device for itself
// takes the next batch while one runs, and so does one of a cluster. It says shortly
// before the end of each that the next may come. Where one engine has all that the
// executor runs it is given the batch at once; else that waits here for its turn, and
// the way from the dispatcher is saved.

// deep is how many batches a lane of an executor holds that takes one ahead.
const deep = 2

// ahead says whether the executor takes a batch ahead. Where batches run side by
// side, one of them is always there already.
func (e *executor) ahead() bool {
	_, ok := e.lanes.all[0].instances[0].(stager)
	return len(e.lanes.all) == 1 && (ok || len(e.residents) > 1)
}

// together says whether all residents are in one engine, which computes in the order in
// which it is given batches.
func (e *executor) together() bool { return len(e.loadedTogether(0)) == len(e.residents) }

// stage gives the good requests to the engine, which computes them once it is done
// with what it has. Nobody else uses the device, so their turn cannot come to
// somebody else.
func (e *executor) stage(c *lane, w *work) {
	if len(w.good) < len(w.items) || w.apart || e.task.concurrency() > 1 || !e.device.Alone() {
		return
	}
	if s, ok := c.instances[w.at].(stager); ok && e.staging {
		if answer, err := s.Stage(w.items); err == nil {
			w.staged = answer
		}
	}
}

// announceEnd calls soon shortly before the batch is expected to end.
func (e *executor) announceEnd(c *lane, b *attach.Batch, w *work, soon func(attach.Soon)) *time.Timer {
	expected := c.took[w.at].Expect(len(w.good))
	if soon == nil || expected == 0 || !e.device.Alone() {
		return nil
	}
	return time.AfterFunc(expected-lead(expected), func() { soon(attach.Soon{ID: b.ID, Compute: expected}) })
}

// staged waits for the answer to what an engine was given before.
type staged func(ctx context.Context) ([][]wire.Tensor, error)
