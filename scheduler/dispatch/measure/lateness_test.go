package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

// Few batches are believed at once, and among many it takes more than a few that are late;
// a run of punctual ones is as good as none late.
func TestLateness(t *testing.T) {
	var l Lateness
	now := time.Duration(0)
	learn := func(n int, longer time.Duration) time.Duration {
		for range n {
			now += 20 * ms
			l.Learn(now, longer)
		}
		return l.Of(now)
	}
	assert.Zero(t, l.Of(now))
	assert.Equal(t, 5*ms, learn(1, 5*ms))
	assert.Equal(t, 5*ms, learn(18, -3*ms), "one in 19")
	assert.Zero(t, learn(200, -ms))
	assert.Zero(t, learn(3, 40*ms), "three in 67 or more")
	assert.InDelta(t, 40*ms, learn(13, 40*ms), float64(40*ms)/32, "sixteen")
	assert.InDelta(t, 40*ms, learn(40, 0), float64(40*ms)/32)
	assert.Zero(t, learn(130, 0))
	learn(20, 40*ms)
	assert.Zero(t, l.Of(now+latenessMemory+41*ms), "nothing has come for long")
	now += latenessMemory + 41*ms
	assert.Equal(t, ms, learn(1, ms))
}

// What it keeps of an executor is bounded, and counting does not allocate once it is there.
func TestLatenessDoesNotGrow(t *testing.T) {
	var l Lateness
	now := time.Duration(0)
	learn := func() {
		for i := range 3 * latenessBatches {
			now += ms
			l.Learn(now, time.Duration(i)*ms/4)
		}
	}
	learn()
	assert.Zero(t, testing.AllocsPerRun(5, learn))
}
