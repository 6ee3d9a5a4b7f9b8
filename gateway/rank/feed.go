package rank

import "github.com/harpagon/harpagon/scheduler/dispatch"

// feedMost is how many requests for one worker a Feed holds back.
const feedMost = 64

// Feed gathers the requests of one caller, so that many are handed over at
// once. It is for one goroutine at a time.
type Feed struct {
	scheduler *Scheduler
	held      [][]dispatch.Request // by worker
	backlog   int
}

// NewFeed makes a Feed. Callers that do not want to share one have their own.
func (s *Scheduler) NewFeed() *Feed {
	f := &Feed{scheduler: s, held: make([][]dispatch.Request, len(s.workers))}
	for i := range f.held {
		f.held[i] = make([]dispatch.Request, 0, feedMost)
	}
	return f
}

// Add takes a request of the model Class. It may be handed over at once or
// wait for Flush.
func (f *Feed) Add(r dispatch.Request) {
	h := f.scheduler.home[r.Class]
	r.Class = h.class
	held := append(f.held[h.worker], r)
	f.held[h.worker] = held
	if len(held) == feedMost {
		f.flush(int(h.worker))
	}
}

func (f *Feed) flush(worker int) {
	f.backlog = max(f.backlog, f.scheduler.workers[worker].box.requests(f.held[worker]))
	f.held[worker] = f.held[worker][:0]
}

// Flush hands over what was added.
func (f *Feed) Flush() {
	for w := range f.held {
		if len(f.held[w]) > 0 {
			f.flush(w)
		}
	}
}

// Behind is the most requests that were found lying before one worker since the
// last call, by which a caller can tell that the scheduler is behind.
func (f *Feed) Behind() int {
	n := f.backlog
	f.backlog = 0
	return n
}
