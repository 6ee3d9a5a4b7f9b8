package dispatch

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
)

// Tuning of the rate meter (Symphony's code counts in samples of 50 ms over
// 5 s).
const (
	meterSample = 50 * time.Millisecond
	meterWindow = 100 // samples that the mean reaches back
	meterHint   = 20  // samples that a rate given beforehand is worth
)

// Meter measures the arrivals per second of one model: a mean over samples,
// plain at first, then fading with meterWindow.
type Meter struct {
	Rate    float64
	Samples int
	Count   int  // arrivals in the running sample
	End     Time // of the running sample
}

// NewMeter makes a meter that begins with the rate given; 0 for unknown.
func NewMeter(hint float64) Meter {
	if hint > 0 {
		return Meter{Rate: hint, Samples: meterHint}
	}
	return Meter{}
}

// Known reports whether there is a rate to go by.
func (m *Meter) Known() bool { return m.Samples > 0 && m.Rate > 0 }

// Hit counts an arrival and reports whether the rate changed.
func (m *Meter) Hit(now Time) bool {
	changed := m.roll(now)
	m.Count++
	return changed
}

// Resume starts the meter again after a pause so long that the earlier rate no longer
// holds: the rate is one arrival per pause until further arrivals change it.
func (m *Meter) Resume(now, pause Time) {
	m.Rate = 1 / max(1, pause).Seconds()
	m.Samples = int(min(max(1, pause/meterSample), meterHint))
	m.Count, m.End = 0, now+meterSample
}

// roll closes the samples that have ended by now.
func (m *Meter) roll(now Time) bool {
	if now < m.End {
		return false
	}
	if m.End == 0 { // the first arrival opens the first sample
		m.End = now + meterSample
		return false
	}
	missed := (now - m.End) / meterSample
	m.close(float64(m.Count) / meterSample.Seconds())
	m.Count = 0
	for range min(missed, 10*meterWindow) {
		m.close(0)
	}
	m.End += (missed + 1) * meterSample
	return true
}

func (m *Meter) close(rate float64) {
	m.Samples = min(m.Samples+1, meterWindow)
	m.Rate += (rate - m.Rate) / float64(m.Samples)
}

// Bounds and weights of what a Pace learns.
const (
	paceWeight = 8           // batches that a change takes to be followed
	paceLeast  = 0.05        // of the profile
	paceMost   = 50.0        // times the profile
	paceMemory = time.Second // without a batch, beyond what the last took, after which the profile counts again
)

// Pace is how long batches have lately taken on executors of one configuration,
// in terms of their profile: scale·profile + way, where scale is the engine's
// time over the profile's and way is what a batch spends beside the engine, on
// its way there and back and in queues before it. Both are exponential means
// over some paceWeight batches; spread is the mean absolute deviation of scale.
// What was learned is forgotten when no batch has come for a while: else a policy that
// takes nothing to be in time would start nothing and never measure again.
//
// The zero value takes batches to be as profiled.
type Pace struct {
	Off, Spread float64 // off = scale - 1
	Way         Time
	Last        Time // when a batch was learned; 0 for never
	Took        Time // how long that was away
}

// Learn takes in a batch that has ended: its duration by the profile, that in
// the engine (0 if unknown: then that in all), and from its start to its end.
func (p *Pace) Learn(now, profiled, took, all Time) {
	if took <= 0 {
		took = all
	}
	if profiled <= 0 || all < 0 {
		return
	}
	if !p.known(now) {
		*p = Pace{}
	}
	p.Last, p.Took = max(1, now), all
	off := min(paceMost, max(paceLeast, float64(took)/float64(profiled))) - 1 - p.Off
	p.Off += off / paceWeight
	if off < 0 {
		off = -off
	}
	p.Spread += (off - p.Spread) / paceWeight
	p.Way += (max(0, all-took) - p.Way) / paceWeight
}

// known reports whether what was learned counts: the next batch is given the time that the
// last one took.
func (p *Pace) known(now Time) bool { return p.Last > 0 && now-p.Last <= paceMemory+p.Took }

// Of is how long a batch with a profiled duration d may take, spread included, so that most
// take no longer.
func (p *Pace) Of(now, d Time) Time { return p.Within(now, d, 1) }

// Within is how long it takes with so many times the spread.
func (p *Pace) Within(now, d Time, spreads float64) Time {
	if !p.known(now) {
		return d
	}
	return Time(float64(d)*(1+p.Off+spreads*p.Spread)) + p.Way
}

// Scale is the factor on profiled durations alone, without the way.
func (p *Pace) Scale(now Time) float64 {
	if !p.known(now) {
		return 1
	}
	return 1 + p.Off
}

// Tuning of a Lateness.
const (
	latenessShare   = 0.95             // of the batches that are away no longer than the estimate
	latenessBatches = 64               // that are counted before those before them are forgotten
	latenessAgain   = 8                // batches after which it is computed again at the latest
	latenessMemory  = 10 * time.Second // without a batch, after which nothing is known any more
)

// Lateness is how much longer than profiled the batches of one executor have lately been
// away, to the return of their answers: a high percentile of the last 64 to 128. It is
// forgotten when no batch has come for a while, so that an executor which was late is tried
// again.
//
// The zero value takes batches to be as profiled.
type Lateness struct {
	Recent, Before histogram.Histogram
	Last           Time // when a batch was learned; 0 for never
	By             Time
}

// Learn takes in a batch that was away so much longer than profiled.
func (l *Lateness) Learn(now, longer Time) {
	if !l.known(now) {
		l.Recent.Reset(histogram.Coarse)
		l.Before.Reset(histogram.Coarse)
		l.By = 0
	}
	l.Last = max(1, now)
	if l.Recent.Count() >= latenessBatches {
		l.Recent, l.Before = l.Before, l.Recent
		l.Recent.Reset(histogram.Coarse)
	}
	l.Recent.Add(longer)
	if n := l.Recent.Count(); n%latenessAgain == 0 || longer > l.By && n+l.Before.Count() < latenessBatches {
		l.By = histogram.Quantile(latenessShare, &l.Recent, &l.Before)
	}
}

func (l *Lateness) known(now Time) bool { return l.Last > 0 && now <= l.until() }

func (l *Lateness) until() Time { return l.Last + latenessMemory + l.By }

// Of is how much longer batches are to be taken to be away.
func (l *Lateness) Of(now Time) Time {
	if !l.known(now) {
		return 0
	}
	return l.By
}

// Lasts is how much longer batches are to be taken to be away until that time, where no
// other batch is learned before.
func (l *Lateness) Lasts() (of, until Time) { return l.By, l.until() }
