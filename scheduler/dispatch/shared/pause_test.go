package shared

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestNothingIsHeldForWhatDoesNotCome lets streams end: what still waits then does not wait
// for its last instant, since executors idle.
func TestNothingIsHeldForWhatDoesNotCome(t *testing.T) {
	model := Model{Durations: Linear(2*ms, 10*ms, 64), SLO: 400 * ms}
	for _, shape := range []float64{1, 0.2} {
		for seed := range uint64(10) {
			v := &vclock{p: NewAdaptive(Options{Models: []Model{model}}), models: []Model{model}, execs: 8, rate: 400, shape: shape, seed: seed + 1, horizon: 5 * time.Second}
			assert.Equal(t, 1.0, v.run())
			assert.Greater(t, v.left, model.SLO/4, "shape %g, seed %d", shape, seed)
		}
	}
}

// TestALoadThatHasFallenIsNotHeld lets a load fall to a hundredth: later requests wait for
// a batch only until the fall is detected, though means over seconds still show a high
// rate, and bursts, for long.
func TestALoadThatHasFallenIsNotHeld(t *testing.T) {
	model := Model{Durations: Linear(2*ms, 10*ms, 64), SLO: 400 * ms}
	for seed := range uint64(10) {
		const falls = 10_000 * ms
		v := &vclock{p: NewAdaptive(Options{Models: []Model{model}}), models: []Model{model}, execs: 8, rate: 500, seed: seed + 1,
			slower: 100, slowAt: falls, warm: falls + model.SLO, horizon: 20 * time.Second}
		assert.Equal(t, 1.0, v.run())
		slices.Sort(v.waited)
		assert.Less(t, v.waited[len(v.waited)*9/10], 10*ms, "seed %d: %v", seed, v.waited)
		assert.Less(t, v.waited[len(v.waited)-1], 100*ms, "seed %d: %v", seed, v.waited)
	}
}

// TestAPauseIsToldWhateverTheClock feeds it instants that jump far ahead and back.
func TestAPauseIsToldWhateverTheClock(t *testing.T) {
	m := &newAdaptive(Options{Models: []Model{{Durations: Linear(ms, 5*ms, 8), SLO: 50 * ms}}}).Models[0]
	assert.False(t, m.resumes(never/4), "nothing has come before")
	for _, rate := range []float64{0, 1e-9, 1e9} {
		m.Meter.Rate = rate
		for _, now := range []dispatch.Time{0, never / 2, 5, never / 2, 0} {
			m.resumes(now)
			m.Last = now
			assert.GreaterOrEqual(t, m.Last+m.pause(), now)
		}
	}
}
