package dispatcher

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// ServiceStats counts the requests of a service. It may be used from many goroutines.
type ServiceStats struct {
	mu    sync.Mutex
	ring  ring[serviceSecond]
	space spacing
	came  int64
	total [Invalid + 1]int64 // outcomes since the beginning
	since dispatch.Time
}

type serviceSecond struct {
	arrived  int64
	gaps     gaps
	outcomes [Invalid + 1]int64
	latency  histogram.Histogram
	splits   []tallied[split]
}

// split is that a module got so many items of one.
type split struct {
	module string
	items  int
}

func (s *serviceSecond) reset() {
	s.latency.Reset(histogram.Coarse)
	*s = serviceSecond{latency: s.latency, splits: s.splits[:0]}
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
	s.came++
	s.space.arrive(came, &second.gaps)
	s.mu.Unlock()
}

// Split counts that an item was split into so many for a module.
func (s *ServiceStats) Split(now dispatch.Time, module string, items int) {
	s.mu.Lock()
	second := s.ring.at(now)
	second.splits = tallyUp(second.splits, split{module, bucketOfItems(items)}, 1)
	s.mu.Unlock()
}

// bucketOfItems is the number that many items count as: exact up to sizesKept, beyond it rounded
// up by less than two in sizesKept.
func bucketOfItems(items int) int {
	step := 1
	for items > sizesKept*step {
		step *= 2
	}
	return (items + step - 1) / step * step
}

// Splits are what was split lately, by module: how often into so many.
func (s *ServiceStats) Splits(now dispatch.Time) map[string][]autoscale.ItemCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.advance(now)
	var sum []tallied[split]
	for i := range s.ring.seconds {
		for _, one := range s.ring.seconds[i].splits {
			sum = tallyUp(sum, one.kind, one.n)
		}
	}
	if sum == nil {
		return nil
	}
	all := make(map[string][]autoscale.ItemCount)
	for _, one := range sum {
		all[one.kind.module] = append(all[one.kind.module], autoscale.ItemCount{Items: one.kind.items, Times: one.n})
	}
	for _, counts := range all {
		slices.SortFunc(counts, func(a, b autoscale.ItemCount) int { return a.Items - b.Items })
	}
	return all
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

// Counts are the requests since the beginning.
func (s *ServiceStats) Counts() size.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.total[LateOutcome] + s.total[Dropped] + s.total[RefusedOutcome]
	return size.Counts{Arrived: s.came, Ended: lost + s.total[Completed] + s.total[Failed], Lost: lost}
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

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. Completed and LateOutcome have answers.
const (
	Completed      Outcome = iota + 1 // answered within its deadline
	LateOutcome                       // answered after its deadline
	Dropped                           // given up because the deadline could no longer be met
	RefusedOutcome                    // refused on arrival
	Failed                            // an error of engine, executor or gateway
	Cancelled                         // the caller went away
	Invalid                           // wrong in itself, on arrival or for an engine: the caller's mistake
)

// String is the outcome in lower case.
func (o Outcome) String() string {
	return [...]string{"", "completed", "late", "dropped", "refused", "failed", "cancelled", "invalid"}[o]
}

// ApplicationStats counts the requests of an application: since its generation
// serves, so that money can be compared with what the plan states, but for the rate.
type ApplicationStats struct {
	ServiceStats
	requests int64 // accepted or refused
	underWay int64
	lateCold int64 // late, behind a cold start
	latency  histogram.Histogram
}

// Begin counts an accepted request.
func (s *ApplicationStats) Begin(now dispatch.Time) {
	s.Arrive(now, now)
	s.mu.Lock()
	s.requests++
	s.underWay++
	s.mu.Unlock()
}

// Refuse counts a request that was turned away, which is no load where it was wrong
// in itself.
func (s *ApplicationStats) Refuse(now dispatch.Time, o Outcome) {
	if o != Invalid {
		s.Arrive(now, now)
	}
	s.End(now, o, 0)
	s.mu.Lock()
	if o != Invalid {
		s.requests++
	}
	s.mu.Unlock()
}

// Finish counts the outcome of a request that was accepted.
func (s *ApplicationStats) Finish(now dispatch.Time, o Outcome, elapsed time.Duration, cold bool) {
	s.End(now, o, elapsed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	if o == LateOutcome && cold {
		s.lateCold++
	}
	if o == Completed || o == LateOutcome {
		s.latency.Add(elapsed)
	}
}

// HandOver counts a request that waits for the next generation of its application.
func (s *ApplicationStats) HandOver(to *ApplicationStats) {
	s.mu.Lock()
	s.requests--
	s.underWay--
	s.mu.Unlock()
	to.mu.Lock()
	to.requests++
	to.underWay++
	to.mu.Unlock()
}

// MeasureApplication is what was seen of the application, and since when its rate was.
func (s *ApplicationStats) MeasureApplication(name string, now dispatch.Time, to time.Time) (m functions.ApplicationMeasures, from time.Time) {
	lately := autoscale.Measures{To: to}
	s.Measure(now, &lately)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.latency.Percentiles()
	return functions.ApplicationMeasures{
		Name: name, Offered: lately.Offered, Requests: s.requests, InFlight: s.underWay,
		Completed: s.total[Completed], Late: s.total[LateOutcome], LateCold: s.lateCold, Dropped: s.total[Dropped], Refused: s.total[RefusedOutcome],
		Failed: s.total[Failed], Cancelled: s.total[Cancelled], Invalid: s.total[Invalid],
		P50: all.P50, P99: all.P99, Max: all.Max,
	}, lately.From
}

// ring keeps a figure per second for the last seconds, so that Measures looks
// back on a span that slides.
type ring[T any] struct {
	seconds []T
	last    int64    // second that was touched last
	reset   func(*T) // empties a figure, and keeps its memory
}

func (r *ring[T]) init(span time.Duration, reset func(*T)) {
	r.seconds, r.reset = make([]T, max(1, int(span/time.Second))+1), reset
	for i := range r.seconds {
		reset(&r.seconds[i])
	}
}

// at is the figure of the current second; those passed over start again.
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
		r.reset(&r.seconds[r.last%int64(len(r.seconds))])
	}
}

// span is what the ring looks back on at now: whole seconds and the current
// one, but not before the beginning of time.
func (r *ring[T]) span(now dispatch.Time) time.Duration {
	first := max(0, int64(now/time.Second)-int64(len(r.seconds))+1)
	return now - time.Duration(first)*time.Second
}

// stretch is how long requests are looked at together: what comes unevenly within it
// is the doing of threads and networks, and fills the same batches.
const stretch = 200 * time.Millisecond

// fewRequests may come in a second for which none were expected.
const fewRequests = 20

// spacing measures how unevenly requests come. Requests are gathered in stretches of
// as many as come in 200 ms at the rate of the second before, and each is compared with
// the next one, so that a rate which changes slowly leaves no mark (the Allan variance,
// in terms of the mean).
type spacing struct {
	second int64 // that is under way
	came   int   // requests within it
	most   int   // of them, that stretches of this size are right for
	size   int   // requests of a stretch
	within int   // requests of the one that is under way
	begin  dispatch.Time
	before float64 // mean gap of the stretch before; negative for none
}

// gaps accumulates the statistics of stretches of one second.
type gaps struct {
	compared int64
	squares  float64 // of differences, in ns², for single gaps
	requests int64
	time     dispatch.Time
}

// arrive counts a request that came at now.
func (s *spacing) arrive(now dispatch.Time, into *gaps) {
	begins := s.size == 0
	if second := int64(now / time.Second); second > s.second || begins {
		if second > s.second+1 {
			s.came = 0
		}
		size := max(1, int(math.Ceil(float64(s.came)*stretch.Seconds())))
		begins = begins || size != s.size
		s.second, s.came, s.size, s.most = second, 0, size, 2*s.came+fewRequests
	}
	if s.came++; begins || s.came > s.most {
		s.within, s.begin, s.before = 0, now, -1
		return
	}
	if s.within++; s.within < s.size {
		return
	}
	took := max(0, now-s.begin)
	gap := float64(took) / float64(s.size)
	into.requests += int64(s.size)
	into.time += took
	if s.before >= 0 {
		into.compared++
		into.squares += float64(s.size) * (gap - s.before) * (gap - s.before) / 2
	}
	s.before, s.within, s.begin = gap, 0, max(s.begin, now)
}

func (g *gaps) add(o gaps) {
	g.compared += o.compared
	g.squares += o.squares
	g.requests += o.requests
	g.time += o.time
}

// measure is nil where nothing could be compared.
func (g *gaps) measure() *autoscale.Gaps {
	if g.compared == 0 || g.time == 0 {
		return nil
	}
	mean := float64(g.time) / float64(g.requests)
	return &autoscale.Gaps{Compared: g.compared, Variation: g.squares / float64(g.compared) / (mean * mean)}
}
