package gateway

import (
	"sync"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// ring keeps a figure per second for the last seconds, so that Measures looks
// back on a span that slides.
type ring[T any] struct {
	seconds []T
	last    int64 // second that was touched last
}

func (r *ring[T]) init(span time.Duration) {
	r.seconds = make([]T, max(1, int(span/time.Second))+1)
}

// at is the figure of the current second; those passed over start anew.
func (r *ring[T]) at(now dispatch.Time) *T {
	r.advance(now)
	return &r.seconds[r.last%int64(len(r.seconds))]
}

func (r *ring[T]) advance(now dispatch.Time) {
	second := int64(now / time.Second)
	if second-r.last > int64(len(r.seconds)) {
		r.last = second - int64(len(r.seconds))
	}
	for r.last < second {
		r.last++
		var zero T
		r.seconds[r.last%int64(len(r.seconds))] = zero
	}
}

// span is what the ring looks back on at now: whole seconds and the current
// one, but not before the beginning of time.
func (r *ring[T]) span(now dispatch.Time) time.Duration {
	first := max(0, int64(now/time.Second)-int64(len(r.seconds))+1)
	return now - time.Duration(first)*time.Second
}

// pipelineStats counts requests.
type pipelineStats struct {
	mu    sync.Mutex
	ring  ring[pipelineSecond]
	total [Invalid + 1]int64 // outcomes since the beginning
	since dispatch.Time
}

type pipelineSecond struct {
	arrived  int64
	outcomes [Invalid + 1]int64
	latency  histogram
}

func (s *pipelineStats) init(span time.Duration) { s.ring.init(span) }

func (s *pipelineStats) arrive(now dispatch.Time) {
	s.mu.Lock()
	s.ring.at(now).arrived++
	s.mu.Unlock()
}

func (s *pipelineStats) end(now dispatch.Time, o Outcome, elapsed time.Duration) {
	s.mu.Lock()
	second := s.ring.at(now)
	second.outcomes[o]++
	s.total[o]++
	if o == Completed || o == Late {
		second.latency.add(elapsed)
	}
	s.mu.Unlock()
}

// applicationStats count the requests of an application: since its generation
// serves, so that money can be compared with what the plan says, but for the rate.
type applicationStats struct {
	pipelineStats
	requests int64 // accepted or refused
	underWay int64
	lateCold int64 // late, behind a cold start
	latency  histogram
}

// begin counts an accepted request.
func (s *applicationStats) begin(now dispatch.Time) {
	s.arrive(now)
	s.mu.Lock()
	s.requests++
	s.underWay++
	s.mu.Unlock()
}

// refuse counts a request that was turned away, which is no load where it was wrong
// in itself.
func (s *applicationStats) refuse(now dispatch.Time, o Outcome) {
	if o != Invalid {
		s.arrive(now)
	}
	s.pipelineStats.end(now, o, 0)
	s.mu.Lock()
	if o != Invalid {
		s.requests++
	}
	s.mu.Unlock()
}

// end counts the outcome of a request that was accepted.
func (s *applicationStats) end(now dispatch.Time, o Outcome, elapsed time.Duration, cold bool) {
	s.pipelineStats.end(now, o, elapsed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	if o == Late && cold {
		s.lateCold++
	}
	if o == Completed || o == Late {
		s.latency.add(elapsed)
	}
}

// handOver counts a request that waits for the next generation of its application.
func (s *applicationStats) handOver(to *applicationStats) {
	s.mu.Lock()
	s.requests--
	s.underWay--
	s.mu.Unlock()
	to.mu.Lock()
	to.requests++
	to.underWay++
	to.mu.Unlock()
}

// moduleStats counts items and batches; the station's lock guards it.
type moduleStats struct {
	ring  ring[moduleSecond]
	paces map[paceKey]*pace
}

type moduleSecond struct {
	requests, batches, batched, failed int64
	queue, wait, compute, transfer     histogram
	executors                          []executorSecond
	sizes                              []tallied[int]    // batches by size
	drops                              []tallied[string] // items by reason
	queries                            []tallied[int]    // of a pool, as they came, by size
}

// tallied is a count of one of a few kinds.
type tallied[K comparable] struct {
	kind K
	n    int64
}

func tallyUp[K comparable](all []tallied[K], kind K, n int64) []tallied[K] {
	for i := range all {
		if all[i].kind == kind {
			all[i].n += n
			return all
		}
	}
	return append(all, tallied[K]{kind, n})
}

func (s *moduleSecond) drop(reason string) { s.drops = tallyUp(s.drops, reason, 1) }

type executorSecond struct {
	name              string
	batches, requests int64
	compute           time.Duration
}

func (s *moduleStats) init(span time.Duration) { s.ring.init(span) }

// batch notes one that has come back. The times of its items have been set.
func (s *moduleStats) batch(f *flight, now dispatch.Time, compute time.Duration, failed int) {
	second := s.ring.at(now)
	n := int64(len(f.items))
	second.batches++
	rows := f.rows()
	second.batched += int64(rows)
	if largest := f.items[0].req.graph.largest; largest > 0 {
		rows = sizeBucket(rows, largest)
	}
	second.sizes = tallyUp(second.sizes, rows, 1)
	e := second.executor(f.exec.hello.Executor)
	e.batches++
	e.requests += n
	e.compute += compute
	second.failed += int64(failed)
	if failed > 0 {
		return // the times of a batch that was computed twice, or not, say little
	}
	if f.items[0].req.graph.largest == 0 { // instances of pools learn by query
		s.pace(f.exec.hello.Hardware, f.rows()).add(now, compute)
	}
	for _, it := range f.items {
		second.queue.add(it.queue)
		second.wait.add(it.wait)
		second.compute.add(it.compute)
		second.transfer.add(it.end - it.ready - it.queue - it.wait - it.compute)
	}
}

func (s *moduleSecond) executor(name string) *executorSecond {
	for i := range s.executors {
		if s.executors[i].name == name {
			return &s.executors[i]
		}
	}
	s.executors = append(s.executors, executorSecond{name: name})
	return &s.executors[len(s.executors)-1]
}
