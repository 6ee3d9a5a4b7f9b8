package serverless

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Histograms hold microseconds up to longest with two significant figures.
const (
	longest = 10 * 60 * 1_000_000
	figures = 2
)

// application is one source of requests under one generation.
type application struct {
	name    string
	class   int32
	group   int // of the plan
	slo     time.Duration
	rate    float64 // as planned
	ring    ring
	counts  functions.ApplicationMeasures
	latency *hdrhistogram.Histogram
}

func newApplication(a functions.Share, class int32, group int, span time.Duration, now dispatch.Time) *application {
	return &application{
		name: a.Name, class: class, group: group, slo: a.SLO, rate: a.Rate, ring: newRing(span, now), latency: hdrhistogram.New(1, longest, figures),
	}
}

// ended counts a request's outcome.
func (a *application) ended(r *request) {
	switch r.outcome {
	case gateway.Completed:
		a.counts.Completed++
	case gateway.Late:
		a.counts.Late++
	case gateway.Dropped:
		a.counts.Dropped++
	case gateway.Failed:
		a.counts.Failed++
	case gateway.Cancelled:
		a.counts.Cancelled++
	case gateway.Invalid:
		a.counts.Invalid++
	}
	if r.err == nil {
		// A value out of range is held at the histogram's end rather than lost.
		_ = a.latency.RecordValue(min(max((r.end-r.arrival).Microseconds(), 1), longest))
	}
}

func (a *application) measure(now dispatch.Time) functions.ApplicationMeasures {
	m := a.counts
	m.Name, m.Offered = a.name, a.ring.rate(now)
	m.InFlight = m.Requests - m.Completed - m.Late - m.Dropped - m.Refused - m.Failed - m.Cancelled - m.Invalid
	at := func(q float64) time.Duration { return time.Duration(a.latency.ValueAtQuantile(q)) * time.Microsecond }
	m.P50, m.P99, m.Max = at(50), at(99), time.Duration(a.latency.Max())*time.Microsecond
	return m
}

// Measures says what was seen of a function. Of one that is not served only the
// name is set.
func (s *Server) Measures(name string) functions.Measures {
	m := functions.Measures{Function: name, To: time.Now()}
	f := s.function(name)
	if f == nil {
		return m
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := s.now()
	g := f.current
	m.Generation, m.From = g.deployment.Generation, m.To
	for _, a := range g.apps {
		m.Applications = append(m.Applications, a.measure(now))
		if from := m.To.Add(-a.ring.span(now)); from.Before(m.From) {
			m.From = from
		}
	}
	for _, one := range g.groups {
		one.Errors = maps.Clone(one.Errors)
		m.Groups = append(m.Groups, one)
	}
	return m
}

// Functions lists what is served, in order of name.
func (s *Server) Functions() []string {
	return slices.SortedFunc(maps.Keys(*s.functions.Load()), cmp.Compare[string])
}

// Totals are the outcomes of a function since it was first installed.
func (s *Server) Totals(name string) map[gateway.Outcome]int64 {
	out := map[gateway.Outcome]int64{}
	if f := s.function(name); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for o := gateway.Completed; o <= gateway.Invalid; o++ {
			out[o] = f.totals[o]
		}
	}
	return out
}

// ring counts arrivals by the second, so that a rate looks back on a span that
// slides.
type ring struct {
	seconds []int64
	last    int64 // second that was touched last
	since   dispatch.Time
}

func newRing(span time.Duration, now dispatch.Time) ring {
	return ring{seconds: make([]int64, max(1, int(span/time.Second))+1), last: int64(now / time.Second), since: now}
}

func (r *ring) add(now dispatch.Time) {
	r.advance(now)
	r.seconds[r.last%int64(len(r.seconds))]++
}

func (r *ring) advance(now dispatch.Time) {
	second := int64(now / time.Second)
	r.last = max(r.last, second-int64(len(r.seconds)))
	for r.last < second {
		r.last++
		r.seconds[r.last%int64(len(r.seconds))] = 0
	}
}

// span is what the ring looks back on: whole seconds and the current one, but
// not before its beginning.
func (r *ring) span(now dispatch.Time) time.Duration {
	first := dispatch.Time(max(0, int64(now/time.Second)-int64(len(r.seconds))+1)) * time.Second
	return now - max(first, r.since)
}

func (r *ring) rate(now dispatch.Time) float64 {
	r.advance(now)
	span := r.span(now)
	if span <= 0 {
		return 0
	}
	n := int64(0)
	for _, k := range r.seconds {
		n += k
	}
	return float64(n) / span.Seconds()
}
