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

func TestAblationsAreOptionsThatExist(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Ablations() {
		require.NoError(t, check(a.Options), a.Name)
		assert.False(t, seen[a.Name], a.Name)
		seen[a.Name] = true
		assert.NotEmpty(t, a.What)
		assert.Positive(t, a.Extra)
		p := solve(plantest.Traffic(), a.Options)
		assert.Equal(t, plan.Feasible, p.Status, "%s: %s", a.Name, p.Reason)
	}
	assert.Len(t, seen, 15+13)
}

// Every variant keeps the objective as its own rule reads it.
func TestAblationsKeepTheirPromises(t *testing.T) {
	feasible := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawConcurrent(t)
		for _, a := range Ablations() {
			if rapid.IntRange(0, 3).Draw(t, a.Name) > 0 {
				continue // a quarter of them for each problem
			}
			p := solve(problem, a.Options)
			if p.Status == plan.Infeasible {
				require.NotEmpty(t, p.Reason)
				continue
			}
			feasible[a.Name]++
			plantest.CheckPlan(t, problem, a.Options, p)
		}
	})
	for _, a := range Ablations() {
		assert.NotZero(t, feasible[a.Name], a.Name)
	}
}

// With one configuration the six requests per second that whole machines of batch 8 or
// 32 leave over cannot be collected within a second, and there is no worse configuration
// whose load dummy requests could move.
func TestOneConfigurationAModule(t *testing.T) {
	problem := plantest.OneModule(plantest.TableM3(), 198, second)
	for _, without := range [][]string{{"multi:one"}, {"multi:one", "dummy"}} {
		o := asPaper
		o.Without = without
		p := solve(problem, o)
		require.Equal(t, plan.Feasible, p.Status, p.Reason)
		assert.InDelta(t, 9.9, p.Cost, 1e-9, "198 of 20 requests per second a machine: only batch 2 collects the last 18 in time")
		for _, g := range p.Modules[0].Groups {
			assert.Equal(t, 2, g.Batch)
		}
	}
}

// Reassigning to one module stops after the first that becomes cheaper.
func TestReassigningToOneModule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		cost := func(without ...string) float64 {
			o := asPaper
			o.Without = without
			return solve(problem, o).Cost
		}
		require.LessOrEqual(t, cost("reassign:one"), cost("reassign")*(1+1e-9))
	})
}

// Both readings of Theorem 1, on M3 of Table II. Literally one configuration
// takes everything: 38 requests per second at batch 8, since 0.25 + 8/38 is
// below 1 s; and all 198 at batch 32. Round robin read so has 2d for the rest,
// too: batch 8 throughout.
func TestReadings(t *testing.T) {
	tests := []struct {
		rate    float64
		without []string
		own     float64
		literal float64
	}{
		{38, []string{"dummy"}, 1.3, 1.1875},
		{198, []string{"dummy"}, 5.3, 4.95},
		{198, []string{"dummy", "tc", "multi"}, 6.3, 6.1875},
	}
	for _, tt := range tests {
		for reading, want := range map[string]float64{"": tt.own, plan.ReadingOwn: tt.own, plan.ReadingLiteral: tt.literal} {
			o := asPaper
			o.Reading, o.Without = reading, tt.without
			p := solve(plantest.OneModule(plantest.TableM3(), tt.rate, second), o)
			require.Equal(t, plan.Feasible, p.Status, p.Reason)
			assert.InDelta(t, want, p.Cost, 1e-9, "%q at %v", reading, tt.rate)
		}
	}
	assert.EqualError(t, check(plan.Options{Policy: plan.PolicyHarpagon, Reading: "fine"}), `plan: there is no reading "fine" of Theorem 1; there is own and literal`)
	assert.ErrorContains(t, check(plan.Options{Policy: plan.PolicyNexus, Reading: plan.ReadingLiteral}), "policy nexus has one reading of Theorem 1")
}

// The literal reading is never dearer for a module than a proven plan of the own one, and collects as soundly
// as any single group. What is not proven may be cheaper; see TestWhatIsNotProvenMayBeCheaper.
func TestTheLiteralReadingIsSoundForOneModule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:1]
		problem.Pipeline.Attainment = pipelines.NoAttainment // fan-outs count by their mean rate
		o := asPaper
		o.Without = []string{"dummy"}
		own := solve(problem, o)
		o.Reading = plan.ReadingLiteral
		literal := solve(problem, o)
		if own.Status == plan.Infeasible {
			return
		}
		require.NotEqual(t, plan.Infeasible, literal.Status, literal.Reason)
		plantest.CheckPlan(t, problem, o, literal)
		if own.Sound {
			require.LessOrEqual(t, literal.Cost, own.Cost*(1+1e-9))
		}
		require.True(t, literal.Sound)
	})
}

// A request in a quarter of an hour is more than a device of kind b does. The own reading gives it to a sliver of a
// cheaper device, in a plan that is not proven; read literally that device collects by the rate of what remains,
// for which there is no time, so b takes all, and the plan is proven.
func TestWhatIsNotProvenMayBeCheaper(t *testing.T) {
	point := func(hardware string, us int) pipelines.Point {
		return pipelines.Point{Hardware: hardware, Batch: 1, Duration: time.Duration(us) * time.Microsecond}
	}
	problem := plantest.OneModule(pipelines.Profile{Points: []pipelines.Point{point("a", 31500), point("b", 18871)}}, 1/0.018871+0.001, 50*time.Millisecond)
	problem.Hardware = []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: 2.5}}
	o := asPaper
	o.Without = []string{"dummy"}
	own := solve(problem, o)
	o.Reading = plan.ReadingLiteral
	literal := solve(problem, o)
	assert.InDelta(t, 2.5+0.001*0.0315, own.Cost, 1e-9)
	assert.False(t, own.Sound)
	assert.InDelta(t, 2.5+0.001*2.5*0.018871, literal.Cost, 1e-9)
	assert.True(t, literal.Sound)
}
