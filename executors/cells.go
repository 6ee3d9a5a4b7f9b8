package executors

import (
	"context"
	"sync"

	"github.com/harpagon/harpagon/executors/turns"
	"github.com/harpagon/harpagon/wire"
)

// cell is a place for one running batch, and in an executor that takes one ahead for
// the next one that waits.
type cell struct {
	held int // batches; under cells.mu
	away bool

	// While the cell holds a batch these do not change.
	instance Instance           // nil while the engine is gone
	stop     context.CancelFunc // of the context that the instance was loaded with

	// Used by who has the device.
	lost    *wire.Error // the engine is gone; nil again once it is loaded anew
	crashes int         // since the last batch that was computed
	took    turns.Durations
}

// cells are the places of an executor for running batches. The sessions with all
// its gateways share them: each gateway knows of its own batches only, so one that
// comes while another gateway's batch runs waits here for its place.
type cells struct {
	all []*cell

	mu     sync.Mutex
	moved  sync.Cond
	depth  int // batches that a cell may hold
	away   int // whose engines are being loaded anew
	closed bool
}

// open makes cells with room for so many batches each.
func (p *cells) open(n, depth int) {
	p.moved.L = &p.mu
	p.depth = depth
	for range n {
		p.all = append(p.all, &cell{})
	}
}

// setDepth gives the cells room for more batches.
func (p *cells) setDepth(depth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.depth = depth
}

// take waits for room in a cell. It returns nil when the engines of all are being
// loaded anew: whoever sent the batch is better told so at once.
func (p *cells) take() *cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if c := p.roomiest(); c != nil {
			c.held++
			return c
		}
		if p.away == len(p.all) || p.closed {
			return nil
		}
		p.moved.Wait()
	}
}

// roomiest is the cell that holds least, nil when all are full or away. The lock
// is held.
func (p *cells) roomiest() (best *cell) {
	for _, c := range p.all {
		if !c.away && c.held < p.depth && (best == nil || c.held < best.held) {
			best = c
		}
	}
	return best
}

// put gives the room in a cell back.
func (p *cells) put(c *cell) {
	p.mu.Lock()
	c.held--
	p.mu.Unlock()
	p.moved.Broadcast()
}

// leave notes that the engine of a cell that was taken is being loaded anew. It is
// false where somebody else does so already.
func (p *cells) leave(c *cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.away {
		return false
	}
	c.away = true
	p.away++
	p.moved.Broadcast()
	return true
}

// alone waits until the cell holds the caller's batch only.
func (p *cells) alone(c *cell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.held > 1 {
		p.moved.Wait()
	}
}

// reopen ends what leave has begun, and gives the room reopen.
func (p *cells) reopen(c *cell) {
	p.mu.Lock()
	c.away, c.lost = false, nil
	p.away--
	c.held--
	p.mu.Unlock()
	p.moved.Broadcast()
}

// wait blocks until not all engines are being loaded anew, or the executor ends.
func (p *cells) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.away == len(p.all) && !p.closed {
		p.moved.Wait()
	}
}

// close wakes all who wait, because the executor ends.
func (p *cells) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.moved.Broadcast()
}
