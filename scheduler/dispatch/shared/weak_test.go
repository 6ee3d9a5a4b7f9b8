package shared

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestNothingIsHeldBackForNothing plays many models that batching helps little, or that have an executor each, in bursts and at random, at rates
// where a policy that starts at once loses about 1 % of the model that loses most: adaptive loses no more.
func TestNothingIsHeldBackForNothing(t *testing.T) {
	for _, row := range []struct {
		name        string
		each, fixed time.Duration
		slo         time.Duration
		models      int
		executors   int
		shape       float64
		rate        float64
	}{
		{"BERT, bursts", 7008, 159, 30, 16, 32, 0.1, 3800},
		{"BERT, few executors", 7008, 159, 25, 8, 16, 0.7, 2200},
		{"BERT, at random", 7008, 159, 20, 48, 72, 1, 10130},
		{"Xception", 4751, 2046, 30, 8, 16, 0.5, 2850},
		{"InceptionV3, an executor each", 1964, 8771, 25, 8, 8, 0.3, 1137},
		{"VGG16, an executor each", 2734, 5786, 40, 16, 16, 0.1, 3600},
		{"DenseNet121, an executor each", 1061, 10312, 25, 32, 32, 0.7, 6880},
		{"DenseNet121, an executor each of few", 1061, 10312, 25, 8, 8, 0.7, 1375},
	} {
		t.Run(row.name, func(t *testing.T) {
			models := slices.Repeat([]Model{{Durations: Linear(row.each*time.Microsecond, row.fixed*time.Microsecond, 64), SLO: row.slo * ms}}, row.models)
			kept := func(build func(Options) dispatch.Policy) float64 {
				sum, seeds := 0.0, 3
				for seed := range seeds {
					v := vclock{
						p: build(Options{Models: models}), models: models, execs: row.executors, rate: row.rate, shape: row.shape,
						seed: uint64(seed + 1), warm: 2 * time.Second, horizon: seconds(100_000 / row.rate),
					}
					v.run()
					sum += v.least()
				}
				return sum / float64(seeds)
			}
			ours, theirs := kept(NewAdaptive), kept(newEager)
			assert.GreaterOrEqual(t, ours, theirs)
			assert.InDelta(t, 0.99, theirs, 0.01, "the rate is near what can be borne")
		})
	}
}

// TestExecutorsToSpareAreLeftIdle plays clusters that are far from full: they are no busier than by the rules
// without startScarce, so that a cluster that follows its load can give as many back.
func TestExecutorsToSpareAreLeftIdle(t *testing.T) {
	for _, row := range []struct {
		name        string
		each, fixed time.Duration
		models      int
		executors   int
		shape       float64
		rate        float64
		busy        float64 // without startScarce
	}{
		{"ResNet50, two executors each", 1053, 5072, 10, 24, 1, 4000, 0.3932},
		{"Xception, three executors each, bursts", 4751, 2046, 8, 24, 0.3, 2600, 0.5876},
		{"BERT, four executors each", 7008, 159, 8, 32, 1, 2400, 0.526},
	} {
		t.Run(row.name, func(t *testing.T) {
			models := slices.Repeat([]Model{{Durations: Linear(row.each*time.Microsecond, row.fixed*time.Microsecond, 64), SLO: 40 * ms}}, row.models)
			v := vclock{p: NewAdaptive(Options{Models: models}), models: models, execs: row.executors, rate: row.rate, shape: row.shape, seed: 1, warm: time.Second, horizon: 9 * time.Second}
			assert.Equal(t, 1.0, v.run())
			assert.LessOrEqual(t, float64(v.busy)/float64(10*time.Second)/float64(row.executors), 1.01*row.busy)
		})
	}
}

// TestMuchTooMuchIsServedAsWell offers three times what a cluster can keep to models that batching helps little: it
// serves about as many in time then.
func TestMuchTooMuchIsServedAsWell(t *testing.T) {
	models := slices.Repeat([]Model{{Durations: Linear(7008*time.Microsecond, 159*time.Microsecond, 64), SLO: 50 * ms}}, 8)
	const kept = 4579 // requests a second
	v := vclock{p: NewAdaptive(Options{Models: models}), models: models, execs: 32, rate: 3 * kept, seed: 1, warm: time.Second, horizon: 5 * time.Second}
	assert.GreaterOrEqual(t, 3*v.run(), 0.985)
}

// TestWhatBatchingGains: none of it where a batch takes as long as its requests, all where hardly longer than one.
func TestWhatBatchingGains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each, fixed := rapid.IntRange(0, 50).Draw(t, "each"), rapid.IntRange(0, 100).Draw(t, "fixed")
		table := Linear(time.Duration(each)*ms/10, time.Duration(fixed)*ms/10+1, 64)
		p := newAdaptive(Options{Models: []Model{{Durations: table, SLO: 3 * table[0], Rate: rapid.Float64Range(0, 1e4).Draw(t, "rate")}}})
		m := &p.Models[0]
		for _, part := range []float64{m.Spared, m.Alone} {
			assert.GreaterOrEqual(t, part, 0.0)
			assert.LessOrEqual(t, part, 1.0)
			if fixed == 0 && each > 0 {
				assert.Less(t, part, 1e-4)
			}
			if each == 0 {
				assert.Equal(t, 1.0, part)
			}
		}
	})
}
