package rank

import "github.com/harpagon/harpagon/scheduler/dispatch"

// feedMost is how many requests for one worker a Feed holds back.
const feedMost = 64

// Feed gathers the requests of one caller, so that many are handed over at
// once. It is for one goroutine at a time.
type Feed struct {
	scheduler *Scheduler
	held      []bundle // by worker
	backlog   int
}

// bundle is what is held back for one worker.
type bundle struct {
	n        int
	requests [feedMost]dispatch.Request
}

// NewFeed makes a Feed. Callers that do not want to share one have their own.
func (s *Scheduler) NewFeed() *Feed {
	return &Feed{scheduler: s, held: make([]bundle, len(s.workers))}
}

// Add takes a request of the model Class. It may be handed over at once or
// wait for Flush.
func (f *Feed) Add(r dispatch.Request) {
	h := f.scheduler.home[r.Class]
	b := &f.held[h.worker]
	b.requests[b.n] = r
	b.requests[b.n].Class = h.class
	if b.n++; b.n == feedMost {
		f.flush(int(h.worker))
	}
}

func (f *Feed) flush(worker int) {
	b := &f.held[worker]
	f.backlog = max(f.backlog, f.scheduler.workers[worker].box.requests(-1, b.requests[:b.n]))
	b.n = 0
}

// Flush hands over what was added.
func (f *Feed) Flush() {
	for w := range f.held {
		if f.held[w].n > 0 {
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
