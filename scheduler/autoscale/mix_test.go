package autoscale

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

func shortLists() pipelines.Mix {
	return pipelines.Mix{{Size: 10, Weight: 6}, {Size: 50, Weight: 3}, {Size: 200, Weight: 1}}
}

func longLists() pipelines.Mix {
	return pipelines.Mix{{Size: 10, Weight: 2}, {Size: 50, Weight: 3}, {Size: 300, Weight: 5}}
}

// reports returns a gateway's measures every five seconds, each of the last ten, when n
// queries a second arrive with sizes of the mix.
func reports(begin time.Time, span time.Duration, mix pipelines.Mix, n int, rng *rand.Rand) (all []Measures) {
	for at := 5 * time.Second; at <= span; at += 5 * time.Second {
		m := Measures{From: begin.Add(at - 10*time.Second), To: begin.Add(at), Modules: []ModuleMeasures{{Name: "query"}}}
		counts := map[int]int64{}
		for range 10 * n {
			x := rng.Float64() * mix.Total()
			for _, s := range mix {
				if x -= s.Weight; x < 0 {
					counts[s.Size]++
					break
				}
			}
		}
		for _, s := range mix {
			if counts[s.Size] > 0 {
				m.Modules[0].Queries = append(m.Modules[0].Queries, QueryCount{Size: s.Size, Queries: counts[s.Size]})
			}
		}
		all = append(all, m)
	}
	return all
}

func TestAnotherMixIsLearned(t *testing.T) {
	begin := time.Unix(1000, 0)
	d := NewMixDrift(shortLists(), MixOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	for _, m := range reports(begin, 3*time.Minute, shortLists(), 50, rng) {
		require.False(t, d.Observe(m).Replan, "as planned")
	}
	begin = begin.Add(3 * time.Minute)
	var advice MixAdvice
	var took time.Duration
	for _, m := range reports(begin, 2*time.Minute, longLists(), 50, rng) {
		raw, err := json.Marshal(d) // as a workflow carries it on
		require.NoError(t, err)
		d = MixDrift{}
		require.NoError(t, json.Unmarshal(raw, &d))
		if advice = d.Observe(m); advice.Replan {
			took = m.To.Sub(begin)
			break
		}
	}
	require.True(t, advice.Replan)
	assert.LessOrEqual(t, took, DefaultHold*3/2+10*time.Second)
	assert.Equal(t, 200, advice.At)
	assert.InDelta(t, 1, advice.From, 1e-9)
	assert.Regexp(t, `^\d+ % of \d+ queries have up to 200 items, planned 100 %$`, advice.Describe())
	share := func(size int) float64 {
		for _, s := range advice.Mix {
			if s.Size == size {
				return s.Weight / advice.Mix.Total()
			}
		}
		return 0
	}
	assert.InDelta(t, 0.5, share(300), 0.08)
	assert.Greater(t, share(200), 0.0, "a little of the old mix stays")
	d.Reset(advice.Mix, begin.Add(took))
	for _, m := range reports(begin.Add(took), 10*time.Minute, longLists(), 50, rng) {
		require.False(t, d.Observe(m).Replan, "it has been learned")
	}
}

func TestFewQueriesAreNoMix(t *testing.T) {
	d := NewMixDrift(shortLists(), MixOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	for _, m := range reports(time.Unix(1000, 0), 2*time.Minute, longLists(), 1, rng) {
		require.False(t, d.Observe(m).Replan, "120 queries are too few")
	}
	require.False(t, d.Observe(Measures{From: time.Unix(1, 0), To: time.Unix(5000, 0), Modules: []ModuleMeasures{{}}}).Replan)
	require.Empty(t, d.Seen, "silence ends a stretch")
}

// However many queries come, chance alone hardly ever triggers a plan.
func TestChanceIsNoDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(10, 60).Draw(t, "rate")
		d := NewMixDrift(shortLists(), MixOptions{Distance: 0.06})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for _, m := range reports(time.Unix(1000, 0), time.Minute, shortLists(), n, rng) {
			if a := d.Observe(m); a.Replan && a.Distance < 0.12 {
				t.Logf("distance %v of %v queries", a.Distance, a.Queries)
				t.Fatalf("chance was taken for a drift")
			}
		}
	})
}
