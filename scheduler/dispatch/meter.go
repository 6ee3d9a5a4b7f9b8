package dispatch

import (
	"time"
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
	count   int  // arrivals in the running sample
	end     Time // of the running sample
}

// NewMeter makes a meter that begins with the rate given; 0 for unknown.
func NewMeter(hint float64) Meter {
	if hint > 0 {
		return Meter{Rate: hint, Samples: meterHint}
	}
	return Meter{}
}

// Known says whether there is a rate to go by.
func (m *Meter) Known() bool { return m.Samples > 0 && m.Rate > 0 }

// Hit counts an arrival and says whether the rate changed.
func (m *Meter) Hit(now Time) bool {
	changed := m.roll(now)
	m.count++
	return changed
}

// Resume says that the next arrival is the first after a pause, so long that the rate before
// holds no more: it is one arrival in that time, until others tell more.
func (m *Meter) Resume(now, pause Time) {
	m.Rate = 1 / max(1, pause).Seconds()
	m.Samples = int(min(max(1, pause/meterSample), meterHint))
	m.count, m.end = 0, now+meterSample
}

// roll closes the samples that have ended by now.
func (m *Meter) roll(now Time) bool {
	if now < m.end {
		return false
	}
	if m.end == 0 { // the first arrival opens the first sample
		m.end = now + meterSample
		return false
	}
	missed := (now - m.end) / meterSample
	m.close(float64(m.count) / meterSample.Seconds())
	m.count = 0
	for range min(missed, 10*meterWindow) {
		m.close(0)
	}
	m.end += (missed + 1) * meterSample
	return true
}

func (m *Meter) close(rate float64) {
	m.Samples = min(m.Samples+1, meterWindow)
	m.Rate += (rate - m.Rate) / float64(m.Samples)
}
