package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestARateIsForgottenAfterAPause: a stream of 1000 a second pauses and goes on with 10.
func TestARateIsForgottenAfterAPause(t *testing.T) {
	steady := func() (m Meter, now time.Duration) {
		for ; now < 10*time.Second; now += time.Millisecond {
			m.Hit(now)
		}
		return m, now
	}
	m, now := steady()
	assert.InDelta(t, 1000, m.Rate, 1)
	m.Hit(now + 100*time.Millisecond)
	assert.InDelta(t, 980, m.Rate, 1, "without Resume, the pause is one of many samples")

	m, now = steady()
	for range 20 {
		now += 100 * time.Millisecond
		if m.Rate > 100 {
			m.Resume(now, 100*time.Millisecond)
		}
		m.Hit(now)
		assert.InDelta(t, 10, m.Rate, 5)
		assert.True(t, m.Known())
	}
}

// TestResumeSurvivesClocks resumes after no time, and after more than fits.
func TestResumeSurvivesClocks(t *testing.T) {
	for _, pause := range []time.Duration{-time.Second, 0, 1, 1 << 61} {
		var m Meter
		m.Resume(1<<61, pause)
		assert.True(t, m.Known(), pause)
		assert.LessOrEqual(t, m.Samples, meterHint, pause)
	}
}
