package rank

import (
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// mailbox is where a worker gets its news. Arrivals, which are many, lie apart
// from all else and are read first, so that a cancellation finds its request.
type mailbox struct {
	wake chan struct{}

	mu       sync.Mutex
	arrivals []dispatch.Request
	events   []dispatch.Event

	_ [64]byte // what lies behind is used by the worker only
}

// requests adds arrivals of one class, or of the class that each names where
// class is below zero, and returns how many lie there now.
func (b *mailbox) requests(class int32, requests []dispatch.Request) int {
	b.mu.Lock()
	from := len(b.arrivals)
	b.arrivals = append(b.arrivals, requests...)
	if class >= 0 {
		for i := range b.arrivals[from:] {
			b.arrivals[from+i].Class = class
		}
	}
	n := len(b.arrivals)
	b.mu.Unlock()
	if n == len(requests) {
		b.nudge()
	}
	return n
}

func (b *mailbox) event(ev dispatch.Event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	n := len(b.events)
	b.mu.Unlock()
	if n == 1 {
		b.nudge()
	}
}

// nudge makes the worker look.
func (b *mailbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// empty takes all that lies there, leaving two slices to fill anew.
func (b *mailbox) empty(arrivals []dispatch.Request, events []dispatch.Event) ([]dispatch.Request, []dispatch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, were := b.arrivals, b.events
	b.arrivals, b.events = arrivals[:0], events[:0]
	return was, were
}
