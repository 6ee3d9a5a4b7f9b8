package pool

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// searched is a small problem of two auxiliary kinds.
func searched() Problem {
	p := pipelines.Pool{Name: "ranking", SLO: 100 * time.Millisecond, Budget: 3, Base: "gpu", Sizes: pipelines.Mix{{Size: 10, Weight: 6}, {Size: 40, Weight: 3}, {Size: 90, Weight: 1}}}
	for kind, line := range map[string][2]int{"gpu": {10_000, 500}, "cpu": {2_000, 2_000}, "old": {6_000, 2_500}} {
		for _, size := range []int{1, 100} {
			p.Profile.Points = append(p.Profile.Points, pipelines.Point{Hardware: kind, Batch: size, Concurrency: 1, Duration: time.Duration(line[0]+line[1]*size) * time.Microsecond})
		}
	}
	return Problem{Pool: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.3}, {Name: "old", Price: 0.2}}}
}

func TestKairosPlusFindsNoMoreThanExact(t *testing.T) {
	o := Options{Queries: 1500}
	best := Solve(searched(), o)
	require.Equal(t, Optimal, best.Status)
	o.Policy = PolicyKairosPlus
	p := Solve(searched(), o)
	require.Equal(t, Feasible, p.Status, p.Reason)
	assert.LessOrEqual(t, p.Goodput, best.Goodput*1.01) // the estimates by which it leaves out are no bounds
	assert.LessOrEqual(t, p.Simulated, p.Configurations)
	assert.Positive(t, p.FoundAt)
	assert.LessOrEqual(t, p.FoundAt, p.Simulated)
	assert.Equal(t, p, Solve(searched(), o), "the same seed, the same search")
	o.Simulations = 2
	assert.LessOrEqual(t, Solve(searched(), o).Simulated, 2)
}

// A study returns the same bounds to many goroutines as to one.
func TestBoundsOfAStudyFromManyGoroutines(t *testing.T) {
	s, err := NewStudy(searched(), Options{Queries: 1500})
	require.NoError(t, err)
	all := s.Configurations()
	want, got := make([]float64, len(all)), make([]float64, len(all))
	for i, counts := range all {
		want[i] = s.Bound(counts)
	}
	var wait sync.WaitGroup
	for i, counts := range all {
		wait.Go(func() { got[i] = s.Bound(counts) })
	}
	wait.Wait()
	assert.Equal(t, want, got)
}

func TestSubConfigurations(t *testing.T) {
	assert.True(t, contains([]int{2, 1}, []int{2, 0}))
	assert.True(t, contains([]int{2, 1}, []int{2, 1}))
	assert.False(t, contains([]int{2, 1}, []int{0, 2}))
}
