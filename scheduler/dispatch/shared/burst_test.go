package shared

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestBurstsAreTold draws arrivals of all kinds: a burst runs where they crowd,
// and never where they are even or come at random.
func TestBurstsAreTold(t *testing.T) {
	for _, row := range []struct {
		name  string
		shape float64 // of gamma gaps; 0 for even ones
		runs  bool
	}{{"even", 0, false}, {"poisson", 1, false}, {"gamma 0.3", 0.3, true}, {"gamma 0.05", 0.05, true}} {
		t.Run(row.name, func(t *testing.T) {
			const gap = float64(4 * ms)
			rng := rand.New(rand.NewPCG(1, 2))
			b, now, seen := newBurst(10*ms), dispatch.Time(0), 0
			for i := range 20_000 {
				g := 1.0
				if row.shape > 0 {
					g = gamma(rng, row.shape)
				}
				now += max(1, dispatch.Time(g*gap))
				b.hit(now)
				if i > 5_000 && b.runs(now, 1) {
					seen++
				}
			}
			if row.runs {
				assert.Greater(t, seen, 14_000)
			} else {
				assert.Zero(t, seen)
			}
			assert.False(t, b.runs(now+10*ms/burstQuiet, 1), "over after a while without arrivals")
		})
	}
}

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

// TestBurstSurvivesClocks feeds it instants that jump far ahead and back.
func TestBurstSurvivesClocks(t *testing.T) {
	b := newBurst(0)
	for _, now := range []dispatch.Time{0, never / 2, 5, never / 2, 0} {
		b.hit(now)
		assert.GreaterOrEqual(t, b.buckets, 0.0)
	}
}
