package experiments_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// TestEverySoundPlanIsKeptRequestByRequest sends single requests through every
// module of every plan that any policy calls sound, under every cost model.
// HARPAGON_WORKLOADS=1131 does so on the whole suite, HARPAGON_LONG on eight workloads.
func TestEverySoundPlanIsKeptRequestByRequest(t *testing.T) {
	t.Parallel()
	n := 4
	if os.Getenv("HARPAGON_LONG") != "" {
		n = 8
	}
	if s := os.Getenv("HARPAGON_WORKLOADS"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	kept := 0
	for i, w := range few(t, n) {
		if i%2 == 1 {
			w = w.WithConcurrency(experiments.DefaultSeed)
		}
		for _, model := range plan.CostModels() {
			for _, v := range experiments.PlanningPolicies(model) {
				if v.Every > 1 {
					continue
				}
				o := v.Options
				o.Clock, o.TimeLimit = ticking(), limit
				p := policies.Solve(w.Problem, o)
				if p.Status == plan.Infeasible || !p.Sound {
					continue
				}
				for _, m := range p.Modules {
					kept++
					if err := experiments.Replay(promised(m), 2000); err != nil {
						t.Errorf("%s, %s, %s, module %s: %v", w.Describe(), v.Name, model, m.Name, err)
					}
				}
			}
		}
	}
	assert.Greater(t, kept, 10*n)
}

// promised gives the groups the windows that the proof rests on: round robin
// plans are written with the windows of their own rule.
func promised(m plan.Module) plan.Module {
	groups := append([]plan.Group{}, m.Groups...)
	for i := range groups {
		if g := &groups[i]; g.Deadline == 0 {
			g.Window = max(g.Window, m.Proven-g.Duration)
		}
	}
	m.Groups = groups
	return m
}

// TestReplayAgreesWithTheDemandTest draws groups that share a stream: what the
// test calls sound is kept request by request.
func TestReplayAgreesWithTheDemandTest(t *testing.T) {
	sound := 0
	rapid.Check(t, func(t *rapid.T) {
		var m plan.Module
		var durations []float64
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			g := plan.Group{Batch: rapid.IntRange(1, 32).Draw(t, "batch"), Rate: float64(rapid.IntRange(1, 300).Draw(t, "rate"))}
			m.Groups, m.Rate = append(m.Groups, g), m.Rate+g.Rate
			durations = append(durations, 0.001*float64(rapid.IntRange(1, 200).Draw(t, "duration")))
		}
		least := demand.Least(m.Rate, demands(m.Groups), durations)
		if least > 10 { // none, or longer than what is replayed
			return
		}
		for i := range m.Groups {
			m.Groups[i].Window = seconds(least - durations[i])
		}
		if !demand.Test(m.Rate, demands(m.Groups)).Sound {
			return // rounded to the wrong side
		}
		sound++
		require.NoError(t, experiments.Replay(m, 3000))
	})
	assert.Positive(t, sound)
}
