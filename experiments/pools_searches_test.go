package experiments

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// searched is a small problem of two auxiliary kinds.
func searched() pool.Problem {
	p := pipelines.Pool{Name: "ranking", SLO: 100 * time.Millisecond, Budget: 3, Base: "gpu", Sizes: pipelines.Mix{{Size: 10, Weight: 6}, {Size: 40, Weight: 3}, {Size: 90, Weight: 1}}}
	for kind, line := range map[string][2]int{"gpu": {10_000, 500}, "cpu": {2_000, 2_000}, "old": {6_000, 2_500}} {
		for _, size := range []int{1, 100} {
			p.Profile.Points = append(p.Profile.Points, pipelines.Point{Hardware: kind, Batch: size, Concurrency: 1, Duration: time.Duration(line[0]+line[1]*size) * time.Microsecond})
		}
	}
	return pool.Problem{Pool: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.3}, {Name: "old", Price: 0.2}}}
}

// A search to the end looks at everything that is not part of what it saw, and the same seed searches the same.
func TestSearchesFindWhatExactFinds(t *testing.T) {
	best := pool.Solve(searched(), pool.Options{Queries: 1500})
	require.Equal(t, pool.Optimal, best.Status)
	evaluate := func(by poolSearch) []pool.Evaluated {
		s, err := pool.NewStudy(searched(), pool.Options{Queries: 1500})
		require.NoError(t, err)
		return s.Evaluate(by.run, 1, 0)
	}
	for _, by := range searches() {
		found := evaluate(by)
		assert.InEpsilon(t, best.Goodput, bestOf(found), 0.01, by.name)
		assert.LessOrEqual(t, len(found), best.Configurations, by.name)
		assert.Equal(t, found, evaluate(by), by.name)
	}
}

// Kairos+ needs no more evaluations than any search for what it finds.
func TestKairosPlusEvaluatesLeast(t *testing.T) {
	s, err := pool.NewStudy(searched(), pool.Options{Queries: 1500})
	require.NoError(t, err)
	own := s.Evaluate((*pool.Search).KairosPlus, 0, 0)
	best := slices.MaxFunc(own, func(a, b pool.Evaluated) int { return int(1e6 * (a.Goodput - b.Goodput)) })
	for _, by := range searches() {
		sum, seeds := 0, 10
		for seed := range seeds {
			found := s.Evaluate(by.run, uint64(seed), best.Goodput)
			sum += len(found)
			assert.GreaterOrEqual(t, found[len(found)-1].Goodput, best.Goodput)
		}
		assert.GreaterOrEqual(t, float64(sum)/float64(seeds), float64(len(own)), by.name)
	}
}
