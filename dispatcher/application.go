package dispatcher

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// ApplicationStats counts the requests of an application: since its generation
// serves, so that money can be compared with what the plan says, but for the rate.
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
