package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Every search ends at its time limit or when stopped, with the best plan so far.
func TestSearchesOfAllKindsEndWhenTheyMust(t *testing.T) {
	ranking := example(t, "../examples/pool")
	emulated := example(t, "../examples/emulated")
	for i := range emulated.Pipeline.Modules {
		if m := &emulated.Pipeline.Modules[i]; m.Scatter {
			m.Fanout = 2 // always, so that nothing need be simulated
		}
	}
	member := small("member", 50)
	member.Arrivals, member.Attainment = pipelines.ArrivalsPoisson, 0.95
	vision := scheduler.Spec{
		Cluster: &pipelines.Cluster{Name: "vision", Hardware: "gpu", Pipelines: []string{"member"}},
		Members: []pipelines.Pipeline{*member}, Hardware: twoKinds,
	}
	many := example(t, "../examples/functions")
	crowd := *many.Function
	for i := range 300 {
		crowd.Applications = append(crowd.Applications, pipelines.Application{Name: fmt.Sprint("a", i), SLO: time.Second + time.Duration(i)*time.Millisecond, Rate: 1})
	}
	many.Function = &crowd
	busy := scheduler.Spec{Pipeline: small("busy", 200), Hardware: twoKinds}
	busy.Pipeline.Arrivals, busy.Pipeline.Attainment = pipelines.ArrivalsPoisson, 0.99
	specs := []scheduler.Spec{ranking, emulated, vision, many, busy}

	now := time.Duration(0)
	passing := func() time.Duration { now += time.Second; return now }
	for name, limits := range map[string]scheduler.Limits{
		"time":    {Clock: passing, TimeLimit: time.Millisecond},
		"stopped": {Stop: func() bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			plans := scheduler.Solve(specs, scheduler.Fleet{}, limits)
			require.NotNil(t, plans[0].Pool)
			assert.Equal(t, pool.Feasible, plans[0].Pool.Status)
			assert.LessOrEqual(t, plans[0].Pool.Simulated, 2)
			assert.Greater(t, plans[0].Pool.BestBound, plans[0].Pool.Goodput)
			assert.True(t, plans[1].Pipeline.CutShort)
			assert.NotEqual(t, plan.Infeasible, plans[1].Pipeline.Status)
			require.NotNil(t, plans[2].Cluster)
			assert.Equal(t, cluster.Infeasible, plans[2].Cluster.Status)
			assert.Contains(t, plans[2].Cluster.Reason, "allow it more time")
			assert.True(t, plans[2].Unfinished())
			assert.False(t, plans[1].Unfinished(), "there is a plan")
			require.NotNil(t, plans[3].Function)
			assert.Equal(t, functions.Feasible, plans[3].Function.Status)
			assert.True(t, plans[3].Function.CutShort)
			assert.Zero(t, plans[3].Function.LowerBound)
			assert.Contains(t, plans[4].Reason(), "ended before it found one")
			assert.True(t, plans[4].Unfinished())
		})
	}
	for _, l := range []scheduler.Limits{{Clock: passing}, {Stop: func() bool { return false }, TimeLimit: 1}} {
		plans := scheduler.Solve(specs[1:4], scheduler.Fleet{}, l)
		assert.False(t, plans[0].Pipeline.CutShort)
		assert.NotEqual(t, cluster.Infeasible, plans[1].Cluster.Status, plans[1].Cluster.Reason)
		assert.False(t, plans[2].Function.CutShort)
		assert.Positive(t, plans[2].Function.LowerBound)
	}
}
