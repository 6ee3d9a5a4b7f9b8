package simulate_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

func example() pipelines.Pipeline {
	m := pipelines.Module{Name: "detect", Fanout: 1}
	for b := 1; b <= 8; b++ {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{
			Hardware: "gpu", Batch: b, Concurrency: 1, Duration: time.Duration(5+2*b) * time.Millisecond,
		})
	}
	return pipelines.Pipeline{Name: "objects", SLO: 60 * time.Millisecond, Rate: 200, Modules: []pipelines.Module{m}}
}

// A plan keeps every request of an even stream, and not of a random one.
func ExampleOnPlans() {
	p := example()
	made := policies.Solve(plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}, plan.Options{})
	for _, kind := range []string{pipelines.ArrivalsEven, pipelines.ArrivalsPoisson} {
		load := simulate.Load{Pipeline: p, Rate: p.Rate, Arrivals: arrivals.Process{Kind: kind}}
		r, err := simulate.OnPlans([]simulate.Load{load}, []plan.Plan{made}, simulate.Options{Seed: 1})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %.0f %% in time\n", kind, 100*r.Pipelines[0].Attainment)
	}
	// Output:
	// even: 100 % in time
	// poisson: 100 % in time
}

// The highest Poisson rate that two devices serve.
func ExampleFindGoodput() {
	run := func(rate float64, seed uint64) (simulate.Result, error) {
		load := simulate.Load{Pipeline: example(), Rate: rate, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}}
		return simulate.OnCluster([]simulate.Load{load}, []simulate.Devices{{Hardware: "gpu", Count: 2}}, simulate.Options{Dispatch: "deferred", Seed: seed})
	}
	g, err := simulate.FindGoodput(run, simulate.Search{Tolerance: 0.02})
	if err != nil {
		panic(err)
	}
	fmt.Printf("between 600 and 800: %v\n", g.Rate > 600 && g.Rate < 800)
	// Output: between 600 and 800: true
}
