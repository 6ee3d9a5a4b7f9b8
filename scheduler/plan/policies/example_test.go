package policies_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Table II of the Harpagon paper: module M3 at 198 requests per second within
// one second. Two dummy requests per second save 0.3 machines.
func ExampleSolve() {
	problem := plan.Problem{
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
		Pipeline: pipelines.Pipeline{
			Name: "m3", SLO: time.Second, Rate: 198,
			Modules: []pipelines.Module{{Name: "M3", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
				{Hardware: "gpu", Batch: 2, Concurrency: 1, Duration: 100 * time.Millisecond},
				{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 250 * time.Millisecond},
				{Hardware: "gpu", Batch: 32, Concurrency: 1, Duration: 800 * time.Millisecond},
			}}}},
		},
	}
	fmt.Print(policies.Solve(problem, plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional}).Describe())
	// Output:
	// m3: feasible plan, 5.00 per hour, worst case 960 ms of 1000 ms
	// policy harpagon, cost model proportional, proven for every request of an even stream
	//   module         rate/s   budget  machines  hardware  batch  duration  window  worst case  cost
	//       M3  198 + 2 dummy  1000 ms         5       gpu     32    800 ms  160 ms      960 ms  5.00
}
