package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const msOf = time.Millisecond

// Few batches are believed at once, and among many it takes more than a few that are late;
// a run of punctual ones is as good as none late.
func TestLateness(t *testing.T) {
	var l Lateness
	now := time.Duration(0)
	learn := func(n int, longer time.Duration) time.Duration {
		for range n {
			now += 20 * msOf
			l.Learn(now, longer)
		}
		return l.Of(now)
	}
	assert.Zero(t, l.Of(now))
	assert.Equal(t, 5*msOf, learn(1, 5*msOf))
	assert.Equal(t, 5*msOf, learn(18, -3*msOf), "one in 19")
	assert.Zero(t, learn(200, -msOf))
	assert.Zero(t, learn(3, 40*msOf), "three in 67 or more")
	assert.InDelta(t, 40*msOf, learn(13, 40*msOf), float64(40*msOf)/32, "sixteen")
	assert.InDelta(t, 40*msOf, learn(40, 0), float64(40*msOf)/32)
	assert.Zero(t, learn(130, 0))
	learn(20, 40*msOf)
	assert.Zero(t, l.Of(now+latenessMemory+41*msOf), "nothing has come for long")
	now += latenessMemory + 41*msOf
	assert.Equal(t, msOf, learn(1, msOf))
}

// What it keeps of an executor is bounded, and counting does not allocate once it is there.
func TestLatenessDoesNotGrow(t *testing.T) {
	var l Lateness
	now := time.Duration(0)
	learn := func() {
		for i := range 3 * latenessBatches {
			now += msOf
			l.Learn(now, time.Duration(i)*msOf/4)
		}
	}
	learn()
	assert.Zero(t, testing.AllocsPerRun(5, learn))
}
