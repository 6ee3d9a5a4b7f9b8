package activities

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// TestASearchThatFoundNothingInTimeIsMadeAgain gives it twice the time each time.
func TestASearchThatFoundNothingInTimeIsMadeAgain(t *testing.T) {
	none := scheduler.Plan{Pipeline: &plan.Plan{Status: plan.Infeasible, Reason: "ended before it found one", CutShort: true}}
	proven := scheduler.Plan{Pipeline: &plan.Plan{Status: plan.Infeasible, Reason: "too slow"}}
	found := scheduler.Plan{Pipeline: &plan.Plan{Status: plan.Feasible, CutShort: true}}
	const first = scheduler.DefaultTimeLimit
	for name, c := range map[string]struct {
		answers []scheduler.Plan
		hurry   bool
		err     error
		want    []time.Duration
	}{
		"found at once":      {answers: []scheduler.Plan{found}, want: []time.Duration{first}},
		"found later":        {answers: []scheduler.Plan{none, none, found}, want: []time.Duration{first, 2 * first, 4 * first}},
		"none":               {answers: []scheduler.Plan{proven}, want: []time.Duration{first}},
		"none that is known": {answers: []scheduler.Plan{none, none, none, none}, want: []time.Duration{first, 2 * first, 4 * first, 8 * first}},
		"in a hurry":         {answers: []scheduler.Plan{none}, hurry: true, want: []time.Duration{first}},
		"the caller is gone": {answers: []scheduler.Plan{{}}, err: errors.New("gone"), want: []time.Duration{first}},
	} {
		t.Run(name, func(t *testing.T) {
			var given []time.Duration
			limits := scheduler.Limits{TimeLimit: first, Stop: func() bool { return false }}
			p, err := persist(limits, !c.hurry, func(l scheduler.Limits) (scheduler.Plan, error) {
				given = append(given, l.TimeLimit)
				return c.answers[len(given)-1], c.err
			})
			require.Equal(t, c.err, err)
			assert.Equal(t, c.want, given)
			assert.Equal(t, c.answers[len(c.answers)-1], p)
		})
	}
}

// TestAJointSearchThatFoundNothingInTimeIsForgotten: the next caller searches again.
func TestAJointSearchThatFoundNothingInTimeIsForgotten(t *testing.T) {
	specs := smallSpecs(2)
	for i := range specs {
		specs[i].Pipeline.Rate, specs[i].Hardware[0].Count = 1000, 1 // of ten that are needed
	}
	var s searches
	in := PlanInput{Spec: specs[0], Beside: specs[1:]}
	p, err := s.plan(t.Context(), in, scheduler.Limits{Stop: func() bool { return true }})
	require.NoError(t, err)
	require.NotEmpty(t, p.Reason())
	require.True(t, p.Unfinished())
	assert.Empty(t, s.all)
}
