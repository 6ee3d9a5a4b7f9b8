package listen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestStampsAreNotBelievedWhenTheClockStepped sets the clock forward and back by an hour.
func TestStampsAreNotBelievedWhenTheClockStepped(t *testing.T) {
	s := newSteps()
	const hour = int64(time.Hour)
	wall := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, step := range []struct {
		since   time.Duration
		set     int64 // by how much the clock has been set
		believe bool
	}{
		{1 * time.Second, 0, true},
		{2 * time.Second, int64(time.Millisecond), true},
		{3 * time.Second, hour, false},
		{3500 * time.Millisecond, hour, false},
		{4 * time.Second, hour, true},
		{5 * time.Second, 0, false},
		{6 * time.Second, 0, true},
	} {
		assert.Equal(t, step.believe, s.at(wall+int64(step.since)+step.set, step.since), "%v", step.since)
	}
}
