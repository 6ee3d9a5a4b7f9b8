package dispatcher

import (
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// ServiceStats counts the requests of a service. It may be used from many goroutines.
type ServiceStats struct {
	mu    sync.Mutex
	ring  ring[serviceSecond]
	space spacing
	total [Invalid + 1]int64 // outcomes since the beginning
	since dispatch.Time
}

type serviceSecond struct {
	arrived  int64
	gaps     gaps
	outcomes [Invalid + 1]int64
	latency  histogram.Histogram
}

func (s *serviceSecond) reset() {
	s.latency.Reset(histogram.Coarse)
	*s = serviceSecond{latency: s.latency}
}

// Init begins to count at now. Measure looks back on span.
func (s *ServiceStats) Init(span time.Duration, now dispatch.Time) {
	s.ring.init(span, (*serviceSecond).reset)
	s.since = now
}

// Arrive counts a request that came at an instant and was read by now, and is none that
// is wrong in itself.
func (s *ServiceStats) Arrive(now, came dispatch.Time) {
	s.mu.Lock()
	second := s.ring.at(now)
	second.arrived++
	s.space.arrive(came, &second.gaps)
	s.mu.Unlock()
}

// End counts the outcome of a request.
func (s *ServiceStats) End(now dispatch.Time, o Outcome, elapsed time.Duration) {
	s.mu.Lock()
	second := s.ring.at(now)
	second.outcomes[o]++
	s.total[o]++
	if o == Completed || o == LateOutcome {
		second.latency.Add(elapsed)
	}
	s.mu.Unlock()
}

// Totals are the outcomes since the beginning.
func (s *ServiceStats) Totals() map[Outcome]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[Outcome]int64)
	for o := Completed; o <= Invalid; o++ {
		out[o] = s.total[o]
	}
	return out
}

// Measure fills in what was seen lately.
func (s *ServiceStats) Measure(now dispatch.Time, m *autoscale.Measures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.advance(now)
	span := min(s.ring.span(now), now-s.since)
	m.From = m.To.Add(-span)
	var sum serviceSecond
	sum.reset()
	for i := range s.ring.seconds {
		second := &s.ring.seconds[i]
		m.Arrived += second.arrived
		m.Completed += second.outcomes[Completed]
		m.Late += second.outcomes[LateOutcome]
		m.Dropped += second.outcomes[Dropped]
		m.Refused += second.outcomes[RefusedOutcome]
		m.Failed += second.outcomes[Failed]
		m.Cancelled += second.outcomes[Cancelled]
		m.Invalid += second.outcomes[Invalid]
		sum.latency.Merge(&second.latency)
		sum.gaps.add(second.gaps)
	}
	m.Offered = rate(m.Arrived, span)
	m.Latency, m.Gaps = sum.latency.Percentiles(), sum.gaps.measure()
}

func rate(n int64, span time.Duration) float64 {
	if span <= 0 {
		return 0
	}
	return float64(n) / span.Seconds()
}
