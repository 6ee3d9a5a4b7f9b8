package admission

import "math"

// Where more come than the devices can do, the queue stands as long as admission lets it, and
// each request waits for about as long as it may: whatever takes longer than foreseen then
// makes many late at once, and the way back to the caller, which nobody measures, counts in
// full. Devices need no more than the batches that are begun next. So the work that waits is
// watched: the least of it within an objective's time has stood there for nothing (as the
// minimum over an interval of CoDel; Nichols and Jacobson 2012), and what is given away is
// shortened until it is that of standingBatches full batches. A queue that
// empties between bursts is left alone, as is one that holds what can all be done, and that of a
// plan that promises every request to be in time, as long as none has been missed.
const (
	standingBatches = 2
	standingGain    = 0.25 // of what is too much or too little, in each interval
)

// standing is the queue of a service that does not empty.
type standing struct {
	over  float64 // work before requests within the interval, beyond standingBatches, in nanoseconds, at least
	ends  Time    // of the interval
	short float64 // nanoseconds by which what is given away is shortened
}

// stands notes the work before a request that comes, beyond standingBatches.
func (s *service) stands(now Time, over float64) {
	q := &s.standing
	q.over = min(q.over, over)
	if now < q.ends {
		return
	}
	if s.pressure() == 0 || s.promised(now) {
		q.short = 0 // it was a burst, or has passed, or is what the plan counts on
	} else if q.ends > 0 {
		most := float64(s.SLO)
		for i := range s.devices {
			d := &s.devices[i]
			most = min(most, float64(s.SLO-d.lead)-d.request-standingBatches*d.batch)
		}
		q.short = max(0, min(q.short+standingGain*q.over, most))
	}
	q.ends, q.over = now+max(1, s.SLO), math.Inf(1)
}
