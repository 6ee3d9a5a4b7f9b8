package executors

import (
	"context"
	"sync"
)

// cell is a place for one running batch. Only one goroutine at a time uses it.
type cell struct {
	instance Instance           // nil while the engine is gone
	stop     context.CancelFunc // of the context that the instance was loaded with
	crashes  int                // since the last batch that was computed
}

// cells are the places of an executor for running batches. The sessions with all
// its gateways share them: each gateway knows of its own batches only, so one that
// comes while another gateway's batch runs waits here for its place.
type cells struct {
	all []*cell

	mu     sync.Mutex
	moved  sync.Cond
	free   []*cell
	away   int // whose engines are being loaded anew
	closed bool
}

// open makes all cells free.
func (p *cells) open() {
	p.moved.L = &p.mu
	p.free = append([]*cell(nil), p.all...)
}

// take waits for a free cell. It returns nil when the engines of all are being
// loaded anew: whoever sent the batch is better told so at once.
func (p *cells) take() *cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.free) == 0 {
		if p.away == len(p.all) || p.closed {
			return nil
		}
		p.moved.Wait()
	}
	last := len(p.free) - 1
	c := p.free[last]
	p.free = p.free[:last]
	return c
}

// put gives a cell back.
func (p *cells) put(c *cell) {
	p.mu.Lock()
	p.free = append(p.free, c)
	p.mu.Unlock()
	p.moved.Signal()
}

// leave notes that the engine of a cell that was taken is being loaded anew; put
// by way of back ends it.
func (p *cells) leave() {
	p.mu.Lock()
	p.away++
	p.mu.Unlock()
	p.moved.Broadcast()
}

func (p *cells) back(c *cell) {
	p.mu.Lock()
	p.away--
	p.free = append(p.free, c)
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
