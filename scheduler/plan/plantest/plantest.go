// Package plantest has problems for the tests of plans, drawn at random and from
// the tables of the papers, and checks what every plan promises.
package plantest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Profile is a profile on hardware "gpu".
func Profile(points ...pipelines.Point) pipelines.Profile {
	for i := range points {
		points[i].Hardware, points[i].Concurrency = "gpu", 1
	}
	return pipelines.Profile{Points: points}
}

// Point is a point of a profile; its duration in milliseconds.
func Point(batch int, ms float64) pipelines.Point {
	return pipelines.Point{Batch: batch, Duration: time.Duration(ms * 1e6)}
}

// TableM1 is module M1 of Table I of the Harpagon paper. The table prints
// throughputs; the durations are batch over throughput.
func TableM1() pipelines.Profile { return Profile(Point(2, 160), Point(4, 200), Point(8, 320)) }

// TableM3 is module M3 of the same table.
func TableM3() pipelines.Profile { return Profile(Point(2, 100), Point(8, 250), Point(32, 800)) }

// OneModule is a pipeline of one module on hardware "gpu" at a price of 1.
func OneModule(p pipelines.Profile, rate float64, slo time.Duration) plan.Problem {
	return plan.Problem{
		Pipeline: pipelines.Pipeline{
			Name: "p", SLO: slo, Rate: rate,
			Modules: []pipelines.Module{{Name: "m", Fanout: 1, Profile: p}},
		},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
	}
}

// DrawConcurrent adds points at higher concurrency to Draw.
func DrawConcurrent(t *rapid.T) plan.Problem {
	problem := Draw(t)
	for i := range problem.Pipeline.Modules {
		profile := &problem.Pipeline.Modules[i].Profile
		for _, pt := range slices.Clone(profile.Points) {
			pt.Concurrency = 2
			pt.Duration = time.Duration(float64(pt.Duration) * rapid.Float64Range(1.2, 2.2).Draw(t, "slower"))
			profile.Points = append(profile.Points, pt)
		}
	}
	return problem
}

// DrawUnlimited is Draw with as many devices as money buys.
func DrawUnlimited(t *rapid.T) plan.Problem {
	p := Draw(t)
	for i := range p.Hardware {
		p.Hardware[i].Count = 0
	}
	return p
}

// Chain is a pipeline of a chain of n models that take 10 ms a batch of 4.
func Chain(name string, n int, rate float64) plan.Problem {
	p := OneKind(1, rate, time.Duration(n)*200*time.Millisecond, pipelines.Point{Batch: 4, Duration: 10 * time.Millisecond, MemoryMiB: 1024})
	p.Pipeline.Name = name
	first := p.Pipeline.Modules[0]
	p.Pipeline.Modules = nil
	for i := range n {
		m := first
		m.Name = string(rune('a' + i))
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: string(rune('a' + i - 1)), Port: "y"}}}
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	return p
}

// DrawUnlimitedFew is DrawUnlimited with at most four modules.
func DrawUnlimitedFew(t *rapid.T) plan.Problem {
	p := DrawUnlimited(t)
	p.Pipeline.Modules = p.Pipeline.Modules[:min(4, len(p.Pipeline.Modules))]
	return p
}

// CheckShared adds up what the plan pays for, and what its groups serve.
func CheckShared(t *rapid.T, problem plan.Problem, p plan.Plan) {
	prices := map[string]float64{}
	for _, h := range problem.Hardware {
		prices[h.Name] = h.Price
	}
	cost := 0.0
	for _, d := range p.Devices {
		cost += d.Price
		share := 0.0
		for _, task := range d.Tasks {
			g := Module(&p, task.Module).Groups[task.Group]
			require.Equal(t, d.Hardware, g.Hardware)
			require.Equal(t, task.Deadline, g.Deadline)
			require.InDelta(t, g.Duration.Seconds()/g.Period.Seconds(), task.Share, 1e-9)
			share += task.Share
		}
		require.InDelta(t, share, d.Share, 1e-9)
		require.LessOrEqual(t, share, 1+1e-6)
	}
	for _, m := range p.Modules {
		served := 0.0
		for _, g := range m.Groups {
			served += g.Rate
			require.LessOrEqual(t, g.Window+max(g.Duration, g.Deadline), m.Budget)
			require.LessOrEqual(t, g.Rate*g.Period.Seconds(), float64(g.Batch)*(1+1e-6))
			if g.Deadline == 0 {
				cost += g.Machines * prices[g.Hardware]
			}
		}
		require.InDelta(t, m.Rate, served, 1e-6*(1+m.Rate))
	}
	require.InDelta(t, cost, p.Cost, 1e-6*(1+cost))
}

// Module is the part of a plan for a module, nil where there is none.
func Module(p *plan.Plan, name string) *plan.Module {
	for i := range p.Modules {
		if p.Modules[i].Name == name {
			return &p.Modules[i]
		}
	}
	return nil
}

// OneKind is a pipeline of one module on hardware "v100".
func OneKind(price float64, rate float64, slo time.Duration, points ...pipelines.Point) plan.Problem {
	for i := range points {
		points[i].Hardware, points[i].Concurrency = "v100", 1
	}
	return plan.Problem{
		Hardware: []pipelines.Hardware{{Name: "v100", Price: price}},
		Pipeline: pipelines.Pipeline{Name: "p", SLO: slo, Rate: rate, Modules: []pipelines.Module{
			{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: points}},
		}},
	}
}

// Draw makes a random DAG with random profiles on three kinds of
// hardware. Longer batches take longer, and less time a request.
func Draw(t *rapid.T) plan.Problem {
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: 2.5}, {Name: "c", Price: 0.3}}}
	p.Pipeline = pipelines.Pipeline{
		Name: "p",
		SLO:  time.Duration(rapid.IntRange(50, 3000).Draw(t, "slo")) * time.Millisecond,
		Rate: rapid.Float64Range(0, 500).Draw(t, "rate"),
	}
	for i := range p.Hardware {
		p.Hardware[i].Count = rapid.SampledFrom([]int{0, 0, 0, 1, 20}).Draw(t, "count")
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "modules") {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: rapid.SampledFrom([]float64{1, 1, 2.5, 0.3}).Draw(t, "fanout")}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("i%d", j), From: pipelines.Ref{Module: fmt.Sprintf("m%d", j), Port: "out"}})
			}
		}
		m.Profile = drawProfile(t)
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	return p
}

// DrawFew is a problem of at most three modules, where each is solved often.
func DrawFew(t *rapid.T) plan.Problem {
	p := Draw(t)
	p.Pipeline.Modules = p.Pipeline.Modules[:min(3, len(p.Pipeline.Modules))]
	return p
}

// drawProfile is a random profile on up to three kinds of hardware.
func drawProfile(t *rapid.T) pipelines.Profile {
	var profile pipelines.Profile
	for i, hardware := range []string{"a", "b", "c"} {
		if i > 0 && rapid.Bool().Draw(t, "skip") {
			continue
		}
		fixed := rapid.Float64Range(1, 30).Draw(t, "fixed")
		each := rapid.Float64Range(0.1, 10).Draw(t, "each")
		for b := 1; b <= 32; b *= 2 {
			d := time.Duration((fixed + each*float64(b)) * 1e6)
			profile.Points = append(profile.Points, pipelines.Point{Hardware: hardware, Batch: b, Concurrency: 1, Duration: d})
		}
	}
	return profile
}

// CheckPlan reports that a plan without shared devices serves all requests, within
// the objective as the policy reads it, with as many devices as exist, and costs
// what its groups do.
func CheckPlan(t *rapid.T, problem plan.Problem, o plan.Options, p plan.Plan) {
	rates := problem.Pipeline.Rates()
	budgets := map[string]time.Duration{}
	cost := 0.0
	for i, m := range p.Modules {
		require.Equal(t, problem.Pipeline.Modules[i].Name, m.Name, "modules stand as declared")
		budgets[m.Name] = m.Budget
		cost += m.Cost
		require.InDelta(t, rates[m.Name], m.Rate, 1e-9)
		require.LessOrEqual(t, m.WorstCase, m.Budget)
		checkGroups(t, problem, o, m)
	}
	require.InDelta(t, cost, p.Cost, 1e-9*(1+cost))
	for _, h := range problem.Hardware {
		if h.Count > 0 {
			require.LessOrEqual(t, p.MachinesOf(h.Name), float64(h.Count)*(1+1e-6), "as many %s as exist", h.Name)
		}
	}
	_, long, err := problem.Pipeline.LongestPath(func(name string) time.Duration { return budgets[name] })
	require.NoError(t, err)
	require.LessOrEqual(t, long, p.SLO, "budgets along every path add up to at most the SLO")
	require.LessOrEqual(t, p.Latency, p.SLO)
	require.False(t, math.IsNaN(p.Cost) || math.IsInf(p.Cost, 0))
}

func checkGroups(t *rapid.T, problem plan.Problem, o plan.Options, m plan.Module) {
	served, dummies, cost := 0.0, 0.0, 0.0
	for _, g := range m.Groups {
		served += g.Rate
		dummies += g.DummyRate
		capacity := g.Machines * float64(g.Batch*g.Concurrency) / g.Duration.Seconds()
		require.LessOrEqual(t, g.Rate+g.DummyRate, capacity*(1+1e-6))
		require.LessOrEqual(t, g.Window+g.Duration, m.Budget, "window and duration fit into the budget")
		require.GreaterOrEqual(t, g.Window, time.Duration(0))
		require.GreaterOrEqual(t, g.Rate, 0.0)
		for _, h := range problem.Hardware {
			if h.Name == g.Hardware {
				cost += h.Price * g.Machines
			}
		}
	}
	require.InDelta(t, m.Rate, served, 1e-6*(1+m.Rate), "every real request is served")
	require.InDelta(t, m.DummyRate, dummies, 1e-6*(1+m.DummyRate))
	require.InDelta(t, cost, m.Cost, 1e-9*(1+cost))
	if o.Lacks("dummy") {
		require.Zero(t, m.DummyRate)
	}
	if o.Lacks("multi") {
		kinds := map[string]bool{}
		for _, g := range m.Groups {
			kinds[fmt.Sprint(g.Hardware, g.Batch)] = true
		}
		require.LessOrEqual(t, len(kinds), 2)
	}
	if o.Lacks("multi:one") && o.Policy == plan.PolicyHarpagon {
		for _, g := range m.Groups {
			require.Equal(t, m.Groups[0].Batch, g.Batch)
			require.Equal(t, m.Groups[0].Hardware, g.Hardware)
		}
	}
}

// Traffic is a pipeline like the example's: detect, then two classifiers of
// what it found, on two kinds of hardware.
func Traffic() plan.Problem {
	classifier := func(name string) pipelines.Module {
		return pipelines.Module{
			Name: name, Scatter: true, Fanout: 1.8,
			Inputs: []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "vehicles"}}},
			Profile: pipelines.Profile{Points: []pipelines.Point{
				{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 7 * time.Millisecond},
				{Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 21 * time.Millisecond},
				{Hardware: "p100", Batch: 1, Concurrency: 1, Duration: 12 * time.Millisecond},
				{Hardware: "p100", Batch: 8, Concurrency: 1, Duration: 45 * time.Millisecond},
			}},
		}
	}
	return plan.Problem{
		Hardware: []pipelines.Hardware{{Name: "v100", Price: 3.06}, {Name: "p100", Price: 1.46}},
		Pipeline: pipelines.Pipeline{
			Name: "traffic", SLO: 400 * time.Millisecond, Rate: 100,
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
					{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 20 * time.Millisecond},
					{Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 80 * time.Millisecond},
					{Hardware: "p100", Batch: 1, Concurrency: 1, Duration: 35 * time.Millisecond},
					{Hardware: "p100", Batch: 8, Concurrency: 1, Duration: 160 * time.Millisecond},
				}}},
				classifier("vehicle"), classifier("colour"),
			},
		},
	}
}

// WaitsForNobody reports whether some machine of the plan runs batches of one and is partly
// used: the papers' policies have it answer at once, however few requests come, and charge
// its share of the machine. A sound plan keeps more of the device free for it.
func WaitsForNobody(p plan.Plan) bool {
	for _, m := range p.Modules {
		for _, g := range m.Groups {
			if g.Batch == 1 && g.Machines < 1 {
				return true
			}
		}
	}
	return false
}
