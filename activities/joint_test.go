package activities

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
)

func smallSpecs(n int) (all []scheduler.Spec) {
	for i := range n {
		p := &pipelines.Pipeline{Name: fmt.Sprint("p", i), SLO: 400 * time.Millisecond, Rate: 2, Modules: []pipelines.Module{{
			Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 10 * time.Millisecond}}},
		}}}
		all = append(all, scheduler.Spec{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}})
	}
	return all
}

func TestServicesThatArePlannedTogetherAreSearchedForOnce(t *testing.T) {
	specs := smallSpecs(3)
	var s searches
	var mu sync.Mutex
	asked := 0
	limits := scheduler.Limits{Clock: func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return 0
	}}
	plans := make([]scheduler.Plan, len(specs))
	var wg sync.WaitGroup
	for i := range specs {
		wg.Go(func() {
			p, err := s.plan(t.Context(), PlanInput{Spec: specs[i], Beside: scheduler.Beside(specs, i)}, limits)
			assert.NoError(t, err)
			plans[i] = p
		})
	}
	wg.Wait()
	want := scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{})
	assert.Equal(t, want, plans)
	once := asked
	_, err := s.plan(t.Context(), PlanInput{Spec: specs[0], Beside: specs[1:]}, limits)
	require.NoError(t, err)
	assert.Equal(t, once, asked, "what was found is kept")
	assert.Len(t, s.all, 1)
	_, err = s.plan(t.Context(), PlanInput{Spec: specs[0], Beside: specs[1:2]}, limits)
	require.NoError(t, err)
	assert.Greater(t, asked, once, "others beside it are another search")
	for i := range 2 * keepSearches {
		specs[0].Pipeline.Rate = float64(i + 3)
		_, err = s.plan(t.Context(), PlanInput{Spec: specs[0], Beside: specs[1:2]}, limits)
		require.NoError(t, err)
	}
	assert.Len(t, s.all, keepSearches)
}

func TestASearchThatIsGivenUpIsMadeByAnother(t *testing.T) {
	specs := smallSpecs(2)
	var s searches
	ctx, cancel := context.WithCancel(t.Context())
	in := PlanInput{Spec: specs[0], Beside: specs[1:]}
	_, err := s.plan(ctx, in, scheduler.Limits{Clock: func() time.Duration { cancel(); return 0 }})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, s.all)
	p, err := s.plan(t.Context(), in, scheduler.Limits{})
	require.NoError(t, err)
	assert.Empty(t, p.Reason())
}
