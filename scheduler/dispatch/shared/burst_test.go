package shared

import (
	"math/rand/v2"
	"slices"
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

// TestAnotherRateIsNoBurst changes the rate of random arrivals to a thirtieth and back: no
// burst runs then. Bursts at one rate and then at another stay bursts.
func TestAnotherRateIsNoBurst(t *testing.T) {
	for _, row := range []struct {
		name  string
		shape float64 // of gamma gaps
		runs  bool
	}{{"poisson", 1, false}, {"gamma 0.1", 0.1, true}} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 2))
				b, now, seen, hits := newBurst(10*ms), dispatch.Time(0), 0, 0
				for part, rate := range []float64{600, 20, 600} {
					for until := now + 20_000*ms; now < until; {
						now += max(1, dispatch.Time(gamma(rng, row.shape)/rate*1e9))
						b.hit(now)
						if part == 0 {
							continue
						}
						hits++
						if b.runs(now, 1) {
							seen++
						}
					}
				}
				if row.runs {
					assert.Greater(t, seen, hits*9/10, "seed %d", seed)
				} else {
					assert.LessOrEqual(t, seen, hits/50, "seed %d", seed)
				}
			}
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

// TestALoadThatHasFallenIsNotHeld lets a load fall to a hundredth: what comes then waits for a
// batch only as long as it takes to see that, though means over seconds tell of a high
// rate, and of bursts, for long.
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

// TestBurstSurvivesClocks feeds it instants that jump far ahead and back.
func TestBurstSurvivesClocks(t *testing.T) {
	b := newBurst(0)
	for _, now := range []dispatch.Time{0, never / 2, 5, never / 2, 0} {
		b.hit(now)
		assert.GreaterOrEqual(t, b.buckets, 0.0)
	}
}
