package executors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLeads(t *testing.T) {
	ms := time.Millisecond
	for took, want := range map[time.Duration]time.Duration{
		200 * time.Microsecond: 100 * time.Microsecond, 2 * ms: 500 * time.Microsecond, 16 * ms: 2 * ms, time.Second: 5 * ms,
	} {
		assert.Equal(t, want, lead(took), took)
	}
}

func TestDurations(t *testing.T) {
	var d Durations
	assert.Zero(t, d.Expect(3))
	d.Learn(3, 8*time.Millisecond)
	assert.Equal(t, 8*time.Millisecond, d.Expect(3))
	assert.Zero(t, d.Expect(2))
	d.Learn(3, 12*time.Millisecond)
	assert.Equal(t, 9*time.Millisecond, d.Expect(3))
}
