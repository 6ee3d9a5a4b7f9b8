package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// tested plays one module of 10 ms a request on four devices at a rate, with a test of 99 %.
func tested(t *testing.T, rate float64, seed uint64, test *Test) PipelineResult {
	p := pipelines.Pipeline{Name: "p", SLO: 40 * ms, Modules: []pipelines.Module{step("a", 10*ms, 1)}}
	load := Load{Pipeline: p, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}
	o := Options{Duration: time.Duration(64_000 / rate * float64(time.Second)), Seed: seed, Eager: true, Test: test}
	r, err := OnPlans([]Load{load}, []plan.Plan{onOwn(p, 4)}, o)
	require.NoError(t, err)
	one := r.Pipelines[0]
	require.Equal(t, one.Requests, one.Completed+one.Late+one.Dropped+one.Refused)
	return one
}

// What is far from the share is judged by the first look, what is near by a later one or none;
// and a verdict is rarely wrong.
func TestATestEndsWhenItIsCertain(t *testing.T) {
	const share = 0.99
	test := func(rate float64) *Test {
		return &Test{Share: share, Confidence: 0.95, First: time.Duration(2000 / rate * float64(time.Second))}
	}
	assert.InDelta(t, 2000, tested(t, 200, 1, test(200)).Requests, 200)
	assert.InDelta(t, 2000, tested(t, 420, 1, test(420)).Requests, 200)
	for _, rate := range []float64{335, 370, 380} {
		long, wrong, requests := 0.0, 0, int64(0)
		for seed := range uint64(4) {
			long += tested(t, rate, 100+seed, nil).Attainment / 4
		}
		const runs = 24
		for seed := range uint64(runs) {
			one := tested(t, rate, seed, test(rate))
			requests += one.Requests
			if i := one.Interval; i.Low >= share && long < share || i.High < share && long >= share {
				wrong++
			}
		}
		t.Logf("at %v/s %.4f in time: %d of %d verdicts wrong, after %d requests", rate, long, wrong, runs, requests/runs)
		assert.LessOrEqual(t, wrong, runs/10)
	}
	sure := test(350)
	first := tested(t, 350, 3, sure).Requests
	sure.Refuted = 0.6
	assert.LessOrEqual(t, tested(t, 350, 3, sure).Requests, first)
	_, err := OnPlans([]Load{{Rate: 1}}, nil, Options{Test: &Test{Confidence: 0.3}})
	assert.ErrorContains(t, err, "a test has a confidence")
}

// Slices that grow hold what they would if they had been as long from the beginning.
func TestSlicesFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folded, first := newTally(0, 1), Time(rapid.IntRange(1000, 100_000).Draw(t, "first"))
		folded.foldFrom(first)
		var times []Time
		at := Time(0)
		for range rapid.IntRange(0, 300).Draw(t, "requests") {
			at += Time(rapid.IntRange(0, 20_000).Draw(t, "gap"))
			times = append(times, at)
			folded.arrive(at, 0)
		}
		straight := newTally(0, 1)
		straight.perTime, straight.folds = folded.perTime, true
		for _, at := range times {
			straight.arrive(at, 0)
		}
		require.Equal(t, straight.total, folded.total)
		require.GreaterOrEqual(t, 1/folded.perTime*slicesOfTime*2, float64(at))
	})
}
