package placement_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// A module that needs 1.2 cores is spread over two; one executor of an earlier
// plan is still of use, another is not.
func ExamplePlace() {
	group := plan.Group{Hardware: "cpu", Batch: 4, Concurrency: 1, Duration: 40 * time.Millisecond, Machines: 1.2, Rate: 120}
	request := placement.Request{
		Plan: plan.Plan{Pipeline: "traffic", Status: plan.Feasible, Modules: []plan.Module{{Name: "detect", Groups: []plan.Group{group}}}},
		Devices: []placement.Device{
			{Host: "host", Name: "cpu/0", Hardware: "cpu"},
			{Host: "host", Name: "cpu/1", Hardware: "cpu"},
		},
		Engines: map[string]placement.ModuleEngine{"detect": {Engine: "gorgonia", Model: "1c2f"}},
	}
	before := request
	before.Plan.Modules = []plan.Module{{Name: "detect", Groups: []plan.Group{group}}}
	before.Plan.Modules[0].Groups[0].Machines = 0.5
	before.Plan.Modules[0].Groups[0].Rate = 50
	running, err := placement.Place(before)
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Actual = running.Slots
	desired, err := placement.Place(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(placement.Reconcile(desired.Slots, request.Actual).Describe())
	// Output:
	// + traffic/detect on host/cpu/1, batch 4, 60 % of the device
	// = traffic/detect on host/cpu/0, batch 4, 60 % of the device
}
