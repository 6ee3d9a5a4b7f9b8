package executors

import (
	"context"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// lane runs one batch at a time. In an executor that takes a batch ahead it also
// holds the next one.
type lane struct {
	held      int // batches; under lanes.mu
	reloading bool

	// While the lane holds a batch these do not change.
	instances []Instance         // of the executor's residents; nil while the engine is gone
	memory    int64              // of them, in bytes
	stop      context.CancelFunc // of the context that they were loaded with

	// Used by the holder of the device.
	lost    *wire.Error             // the engine is gone; nil again once it is loaded again
	crashes int                     // since the last batch that was computed
	took    []Durations             // by resident
	behind  map[int]<-chan struct{} // residents whose instances were given up at work, until they have ended
}

// lanes are as many as the executor runs batches at a time. The sessions with all its gateways
// share them: each gateway sees its own batches only, so one that arrives while another
// gateway's batch runs waits here for a free lane.
type lanes struct {
	all []*lane

	mu        sync.Mutex
	changed   sync.Cond
	depth     int // batches that a lane may hold
	reloading int // whose engines are being loaded again
	closed    bool
}

// open makes lanes with room for so many batches each.
func (p *lanes) open(n, depth int) {
	p.changed.L = &p.mu
	p.depth = depth
	for range n {
		p.all = append(p.all, &lane{})
	}
}

// setDepth gives the lanes room for more batches.
func (p *lanes) setDepth(depth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.depth = depth
}

// acquire waits for room in a lane. It returns nil when the engines of all are being
// loaded again, so that the sender of the batch receives that at once.
func (p *lanes) acquire() *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if c := p.leastLoaded(); c != nil {
			c.held++
			return c
		}
		if p.reloading == len(p.all) || p.closed {
			return nil
		}
		p.changed.Wait()
	}
}

// leastLoaded is the lane that holds least, nil when all are full or away. The lock
// is held.
func (p *lanes) leastLoaded() (best *lane) {
	for _, c := range p.all {
		if !c.reloading && c.held < p.depth && (best == nil || c.held < best.held) {
			best = c
		}
	}
	return best
}

// release gives the room in a lane back.
func (p *lanes) release(c *lane) {
	p.mu.Lock()
	c.held--
	p.mu.Unlock()
	p.changed.Broadcast()
}

// beginReload notes that the engine of a lane that was taken is being loaded again. It is false
// where another goroutine does so already.
func (p *lanes) beginReload(c *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.reloading {
		return false
	}
	c.reloading = true
	p.reloading++
	p.changed.Broadcast()
	return true
}

// seize is acquire and beginReload of a certain lane, unless it was reloaded meanwhile.
func (p *lanes) seize(life context.Context, c *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.reloading {
		p.changed.Wait()
	}
	if life.Err() != nil {
		return false
	}
	c.held++
	c.reloading = true
	p.reloading++
	p.changed.Broadcast()
	return true
}

// awaitAlone waits until the lane holds the caller's batch only.
func (p *lanes) awaitAlone(c *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.held > 1 {
		p.changed.Wait()
	}
}

// endReload ends what beginReload began, and gives the room back.
func (p *lanes) endReload(c *lane) {
	p.mu.Lock()
	c.reloading, c.lost = false, nil
	p.reloading--
	c.held--
	p.mu.Unlock()
	p.changed.Broadcast()
}

// awaitLoaded blocks until not all engines are being loaded again, or the executor ends.
func (p *lanes) awaitLoaded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.reloading == len(p.all) && !p.closed {
		p.changed.Wait()
	}
}

// close wakes all waiters, because the executor ends.
func (p *lanes) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.changed.Broadcast()
}

// A batch ahead: an executor whose engine is a stager and has its device for itself
// takes the next batch while one runs, and so does one of a cluster. It sends Soon shortly
// before the end of each. An engine that has all that the executor runs is given the next batch
// at once; otherwise the batch waits here for its turn, which still saves the time of its
// transfer.

// deep is how many batches a lane of an executor holds that takes one ahead.
const deep = 2

// ahead reports whether the executor takes a batch ahead. Where batches run side by
// side, one of them is always there already.
func (e *executor) ahead() bool {
	_, ok := e.lanes.all[0].instances[0].(stager)
	return len(e.lanes.all) == 1 && (ok || len(e.residents) > 1)
}

// together reports whether all residents are in one engine, which computes in the order in
// which it is given batches.
func (e *executor) together() bool { return len(e.loadedTogether(0)) == len(e.residents) }

// stage gives the good requests to the engine, which computes them once it is done
// with what it has. No other executor uses the device, so the turn stays with this one.
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
