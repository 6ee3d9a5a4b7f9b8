package sizing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

const ms = time.Millisecond

// TestMissingIsTheMeanOverAllThatMayBeAway enumerates which machines are away.
func TestMissingIsTheMeanOverAllThatMayBeAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := standing{needs: rapid.IntRange(1, 6).Draw(t, "needs"), away: rapid.Float64Range(0.001, 0.9).Draw(t, "away"), weight: 0.7}
		spare := rapid.IntRange(0, 4).Draw(t, "spare")
		n, mean := s.needs+spare, 0.0
		for set := range 1 << n {
			p, there := 1.0, 0
			for k := range n {
				if set>>k&1 == 1 {
					p *= s.away
				} else {
					p, there = p*(1-s.away), there+1
				}
			}
			mean += p * math.Max(0, 1-float64(there)/float64(s.needs))
		}
		assert.InDelta(t, 0.7*mean, s.missing(spare), 1e-9)
	})
}

// TestSpareMachinesCostTheLeast compares with all numbers of spare machines.
func TestSpareMachinesCostTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := make([]standing, rapid.IntRange(1, 3).Draw(t, "groups"))
		for i := range groups {
			groups[i] = standing{
				needs: rapid.IntRange(1, 5).Draw(t, "needs"), away: rapid.Float64Range(0.001, 0.3).Draw(t, "away"),
				weight: rapid.Float64Range(0.1, 1).Draw(t, "weight"), price: rapid.Float64Range(0.1, 3).Draw(t, "price"), most: 4,
			}
		}
		allowed := rapid.Float64Range(0.0001, 0.1).Draw(t, "allowed")
		least, all := math.Inf(1), 1
		for range groups {
			all *= 5
		}
		for code := range all {
			cost, missing := 0.0, 0.0
			for i, rest := 0, code; i < len(groups); i, rest = i+1, rest/5 {
				cost, missing = cost+float64(rest%5)*groups[i].price, missing+groups[i].missing(rest%5)
			}
			if missing <= allowed {
				least = math.Min(least, cost)
			}
		}
		got := cheapest(groups, allowed)
		if math.IsInf(least, 1) {
			require.Greater(t, got.missing, allowed)
			return
		}
		require.LessOrEqual(t, got.missing, allowed)
		require.InDelta(t, least, got.cost, 1e-9)
	})
}

// spotted is one module on a kind of device that stays and on one that is taken back
// and costs a third.
func spotted(rate, interruptions float64) plan.Problem {
	p := plantest.OneKind(3, rate, 200*ms, pipelines.Point{Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 80 * ms})
	m := &p.Pipeline.Modules[0]
	m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "spot", Batch: 8, Concurrency: 1, Duration: 80 * ms})
	p.Hardware = append(p.Hardware, pipelines.Hardware{Name: "spot", Price: 1, Interruptions: interruptions, Recovery: time.Minute})
	return p
}

// TestAPlanHasMachinesToSpare: the plan on devices that are taken back is cheaper than
// on those that stay, has no more machines than it needs, and, played with devices
// that are taken back as often as declared, attains what it was made for.
func TestAPlanHasMachinesToSpare(t *testing.T) {
	for _, model := range []string{plan.CostWhole, plan.CostShared} {
		for _, arrivals := range []string{"", "poisson"} {
			p := spotted(380, 2)
			p.Pipeline.Arrivals, p.Pipeline.Attainment = arrivals, 0.99
			p.Pipeline.Modules[0].Fanout = 1
			got := SolveAll([]plan.Problem{p}, Options{Options: plan.Options{CostModel: model}})[0]
			require.Equal(t, plan.Feasible, got.Status, got.Reason)
			require.NotNil(t, got.Interruptions)
			assert.Equal(t, model, got.CostModel)
			assert.LessOrEqual(t, got.Interruptions.Missing, got.Interruptions.Allowed)
			assert.Positive(t, got.Interruptions.Spare)
			stays := Solve(lasting(p, interrupted(&p)), Options{Options: plan.Options{CostModel: model}})
			assert.Less(t, got.Cost, stays.Cost)
			g := got.Modules[0].Groups[0]
			assert.Equal(t, "spot", g.Hardware)
			assert.Contains(t, got.Describe(), "of the machines are spare, for")

			attained := played(t, p, got, 45*time.Minute, 2, time.Minute)
			assert.GreaterOrEqual(t, attained, 0.99, "%s %s: %s", model, arrivals, got.Describe())
		}
	}
}

// played simulates a plan whose devices are taken back as often as declared.
func played(t *testing.T, p plan.Problem, got plan.Plan, length time.Duration, perHour float64, recovery time.Duration) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	o := simulate.Options{Seed: 5, Duration: length, Eager: true, Admission: true}
	devices := 0
	for _, m := range got.Modules {
		for _, g := range m.Groups {
			devices += int(math.Ceil(g.Machines))
		}
	}
	for d := range devices {
		for at := time.Duration(0); ; {
			at += time.Duration(rng.ExpFloat64() / perHour * float64(time.Hour))
			back := at + time.Duration(rng.ExpFloat64()*float64(recovery)) + 1
			if at >= length {
				break
			}
			o.Outages = append(o.Outages, simulate.Outage{Device: d, From: at, To: back})
			at = back
		}
	}
	s, err := newSizer(p, Options{}, got)
	require.NoError(t, err)
	r, err := simulate.OnPlans([]simulate.Load{s.load}, []plan.Plan{got}, o)
	require.NoError(t, err)
	return r.Pipelines[0].Attainment
}

// Rare interruptions, and pipelines without an attainment, need no machine more.
func TestAPlanBearsRareInterruptionsAsItIs(t *testing.T) {
	rare := Solve(spotted(380, 0.0003), Options{})
	require.NotNil(t, rare.Interruptions)
	assert.Zero(t, rare.Interruptions.Spare)
	assert.Contains(t, rare.Describe(), "no machine is spare")
	unasked := spotted(380, 10)
	unasked.Pipeline.Attainment = pipelines.NoAttainment
	assert.Zero(t, Solve(unasked, Options{}).Interruptions.Spare)

	never := spotted(380, 0)
	assert.Nil(t, Solve(never, Options{}).Interruptions)
}

// What is taken back too often is not worth its price; where nothing else can be had there
// is no plan, for that reason.
func TestDevicesThatAreGoneTooOften(t *testing.T) {
	p := spotted(95, 60)
	p.Hardware[1].Price, p.Hardware[1].Recovery = 2.5, 10*time.Minute
	got := Solve(p, Options{Options: plan.Options{CostModel: plan.CostWhole}})
	require.NotEqual(t, plan.Infeasible, got.Status)
	assert.Nil(t, got.Interruptions)
	assert.Equal(t, "v100", got.Modules[0].Groups[0].Hardware)

	p.Hardware = p.Hardware[1:]
	p.Hardware[0].Count = 3
	none := Solve(p, Options{Options: plan.Options{CostModel: plan.CostWhole}})
	assert.Equal(t, plan.Infeasible, none.Status)
	assert.Contains(t, none.Reason, "rent some on demand")
}

// Under cost model proportional devices cost what they do for the time they are there.
func TestInterruptionsInProportion(t *testing.T) {
	p := spotted(380, 6)
	o := Options{Options: plan.Options{CostModel: plan.CostProportional}}
	got, q := Solve(p, o), p.Hardware[1].Away(p.Pipeline.SLO)
	p.Hardware[1].Interruptions = 0
	assert.InDelta(t, Solve(p, o).Cost/(1-q), got.Cost, 1e-9)
	assert.Greater(t, got.Interruptions.Spare, 0.3)
}

// TestPipelinesOnDevicesThatAreTakenBack are planned together where that is cheaper.
func TestPipelinesOnDevicesThatAreTakenBack(t *testing.T) {
	a, b := spotted(10, 12), spotted(10, 12)
	a.Pipeline.Name, b.Pipeline.Name = "a", "b"
	a.Pipeline.SLO, b.Pipeline.SLO = 600*ms, 600*ms
	plans := SolveAll([]plan.Problem{a, b}, Options{})
	cost := 0.0
	for _, p := range plans {
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		cost += p.Cost
	}
	assert.LessOrEqual(t, cost, 3+1e-9, "both fit on one device that stays")
}
