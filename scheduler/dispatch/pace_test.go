package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Batches that a network held up for a second count little two seconds later, even if no
// batch came since: else requests would be refused, and nothing measured, for far longer
// than the stall.
func TestAStallIsForgotten(t *testing.T) {
	const profiled, stall = 2 * time.Millisecond, time.Second
	for _, batches := range []int{1, 2, 4, 8} {
		var p Pace
		now := 10 * time.Second
		for range batches {
			p.Learn(now, profiled, profiled, profiled+stall)
		}
		assert.Greater(t, p.Of(now, profiled), 50*profiled, "%d batches", batches)
		assert.LessOrEqual(t, p.Of(now+paceMemory+2*stall, profiled), profiled, "%d batches", batches)
	}
}

// What is learned lasts for as long as batches come in the time that they take.
func TestALongWayIsRemembered(t *testing.T) {
	const profiled, way = 2 * time.Millisecond, 3 * time.Second
	var p Pace
	now := 10 * time.Second
	for range 40 {
		now += way
		p.Learn(now, profiled, profiled, profiled+way)
	}
	assert.InDelta(t, float64(profiled+way), float64(p.Of(now+way, profiled)), float64(way)/20)
}
