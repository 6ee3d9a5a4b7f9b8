package dispatch

import "time"

// Tuning of the rate meter (Symphony's code counts in samples of 50 ms over
// 5 s).
const (
	meterSample = 50 * time.Millisecond
	meterWindow = 100 // samples that the mean reaches back
	meterHint   = 20  // samples that a rate given beforehand is worth
)

// meter measures the arrivals per second of one model: a mean over samples,
// plain at first, then fading with meterWindow.
type meter struct {
	rate    float64
	samples int
	count   int  // arrivals in the running sample
	end     Time // of the running sample
}

func newMeter(hint float64) meter {
	if hint > 0 {
		return meter{rate: hint, samples: meterHint}
	}
	return meter{}
}

// known says whether there is a rate to go by.
func (m *meter) known() bool { return m.samples > 0 && m.rate > 0 }

// hit counts an arrival and says whether the rate changed.
func (m *meter) hit(now Time) bool {
	changed := m.roll(now)
	m.count++
	return changed
}

// roll closes the samples that have ended by now.
func (m *meter) roll(now Time) bool {
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

func (m *meter) close(rate float64) {
	m.samples = min(m.samples+1, meterWindow)
	m.rate += (rate - m.rate) / float64(m.samples)
}
