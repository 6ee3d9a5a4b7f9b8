package paper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

var nexusShared = plan.Options{Policy: plan.PolicyNexus, CostModel: plan.CostShared}

func TestNexusSquishesSmallModelsTogether(t *testing.T) {
	p := solve(plantest.Chain("p", 5, 50), nexusShared)
	require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
	assert.InDelta(t, 1, p.Cost, 1e-9)
	require.Len(t, p.Devices, 1)
	assert.Len(t, p.Devices[0].Tasks, 5)
	cycle := p.Devices[0].Tasks[0].Period
	for _, task := range p.Devices[0].Tasks {
		assert.Equal(t, cycle, task.Period, "one duty cycle for all")
	}
}

// A full machine beside a rest: the rest shares, the machine does not.
func TestNexusSquishesOnlyRests(t *testing.T) {
	problem := plantest.OneKind(1, 450, time.Second, pipelines.Point{Batch: 4, Duration: 10 * time.Millisecond})
	p := solve(problem, nexusShared)
	require.Len(t, p.Modules[0].Groups, 2)
	assert.Equal(t, 1.0, p.Modules[0].Groups[0].Machines)
	assert.InDelta(t, 2, p.Cost, 1e-9)
	assert.Len(t, p.Devices, 1)
}

func TestNexusSharedAgainstExact(t *testing.T) {
	sound, unsound := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		problem.Pipeline.Rate /= 10
		p := solve(problem, nexusShared)
		if p.Status == plan.Infeasible {
			return
		}
		plantest.CheckShared(t, problem, p)
		if !p.Sound {
			unsound++
			return
		}
		sound++
		best := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostShared})
		require.LessOrEqual(t, best.Cost, p.Cost*(1+1e-9), "%s\n%s", p.Describe(), best.Describe())
	})
	t.Logf("%d sound, %d not", sound, unsound)
}
