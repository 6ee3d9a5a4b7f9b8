package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestCrowdComparesWithTurns lets executors return in turns, later and sooner.
func TestCrowdComparesWithTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, lookaheadDevices).Draw(t, "executors")
		p := newAdaptive(Options{Models: []Model{{Durations: Linear(ms, 5*ms, 64), SLO: 50 * ms}}}, tunedRules())
		turn := dispatch.Time(rapid.IntRange(1, 20).Draw(t, "turn")) * ms
		p.meanBatchTime = float64(turn) * float64(n)
		later := rapid.Float64Range(0, 3).Draw(t, "later")
		for _, id := range rapid.Permutation(ids(n)).Draw(t, "order") {
			p.fleet.Join(id, 0, 0)
			if id > 0 {
				p.fleet.Send(id, dispatch.Time(later*float64(id)*float64(turn)))
			}
		}
		of := min(crowdMost, later-1)
		assert.InDelta(t, of*(p.rules.crowdNear+p.rules.crowdFar), p.crowd(), 1e-6)
	})
}

func ids(n int) []dispatch.ExecutorID {
	list := make([]dispatch.ExecutorID, n)
	for i := range list {
		list[i] = dispatch.ExecutorID(i)
	}
	return list
}

// TestCrowdIsForSmallClusters has none without executors, with one, and with more than lookahead looks at.
func TestCrowdIsForSmallClusters(t *testing.T) {
	for _, n := range []int{0, 1, lookaheadDevices + 1} {
		p := newAdaptive(Options{Models: []Model{{Durations: Linear(ms, 5*ms, 64), SLO: 50 * ms}}}, tunedRules())
		p.meanBatchTime = float64(10 * ms)
		for _, id := range ids(n) {
			p.fleet.Join(id, 0, 0)
			p.fleet.Send(id, 40*ms)
		}
		assert.Zero(t, p.crowd(), "%d executors", n)
	}
}

// TestRateMarginFollowsTheProfile has no margin where most of a batch's time is fixed, and never too much.
func TestRateMarginFollowsTheProfile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each, fixed := rapid.IntRange(0, 50).Draw(t, "each"), rapid.IntRange(1, 100).Draw(t, "fixed")
		table := Linear(time.Duration(each)*ms/10, time.Duration(fixed)*ms/10, 64)
		p := newAdaptive(Options{Models: []Model{{Durations: table, SLO: 3 * table[0], Rate: rapid.Float64Range(1, 1e4).Draw(t, "rate")}}}, tunedRules())
		m := &p.models[0]
		p.fleet.Join(0, 0, 0)
		assert.Zero(t, p.rateMargin(m), "a lone executor")
		p.fleet.Join(1, 0, 0)
		share := float64(fixed) * float64(ms) / 10 / float64(table[m.target-1])
		assert.InDelta(t, max(0, 1-share/fixedMost), m.slender, 1e-6)
		assert.LessOrEqual(t, p.rateMargin(m), rateMarginMost)
		assert.GreaterOrEqual(t, p.rateMargin(m), 0.0)
		if share >= fixedMost {
			assert.Zero(t, p.rateMargin(m))
		}
	})
}

// TestCrowdAndHopeLoseLess plays clusters of unlike profiles and sizes near 1 % of losses, with and
// without them: less is lost, except
// where a batch's time hardly grows, and where it does nothing else: there nothing changes.
func TestCrowdAndHopeLoseLess(t *testing.T) {
	for _, row := range []struct {
		name        string
		each, fixed time.Duration
		slo         time.Duration
		executors   int
		rate        float64
		less        float64
	}{
		{"ResNet50", 1053, 5072, 25, 8, 5560, 0.95},
		{"ResNet50, four executors", 1053, 5072, 50, 4, 3199, 0.95},
		{"EfficientNetB4", 2881, 4103, 31, 8, 2180, 0.95},
		{"EfficientNetV2M", 4479, 6861, 49, 8, 1388, 0.95},
		{"VGG19", 893, 2181, 20, 6, 5584, 0.9},
		{"Xception", 4751, 2046, 42, 8, 1514, 0.95},
		{"BERT", 7353, 222, 59, 8, 1075, 1},
		{"ResNet152", 390, 10449, 24, 8, 9902, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			models := []Model{{Durations: Linear(row.each*time.Microsecond, row.fixed*time.Microsecond, 64), SLO: row.slo * ms}}
			lost := func(r adaptiveRules) float64 {
				sum, seeds := 0.0, 3
				for seed := range seeds {
					v := &vclock{p: newAdaptive(Options{Models: models}, r), models: models, execs: row.executors, rate: row.rate, seed: uint64(seed + 1), warm: time.Second, horizon: seconds(60_000 / row.rate)}
					sum += 1 - v.run()
				}
				return sum / float64(seeds)
			}
			without := tunedRules()
			without.crowdNear, without.crowdFar, without.rateMargin = 0, 0, 0
			assert.LessOrEqual(t, lost(tunedRules()), row.less*lost(without))
		})
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
