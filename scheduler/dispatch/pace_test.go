package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Batches that a network has held up for a second say little two seconds later, when
// nothing has come since: else nobody would be served, and nothing learned, for longer
// than the stall itself by far.
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
