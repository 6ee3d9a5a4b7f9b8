package functions

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
)

// Deployment is what a gateway needs to serve a function: the plan, and whom to
// call.
type Deployment struct {
	Generation int
	Function   pipelines.Function
	Provider   pipelines.Provider
	Plan       Plan
}

// Check says what keeps the deployment from being served.
func (d Deployment) Check() error {
	switch {
	case d.Plan.Status == Infeasible:
		return fmt.Errorf("functions: function %q has no plan: %s", d.Function.Name, d.Plan.Reason)
	case len(d.Plan.Groups) == 0:
		return fmt.Errorf("functions: the plan of function %q has no groups", d.Function.Name)
	}
	for i := range d.Plan.Groups {
		if _, err := d.URL(i); err != nil {
			return fmt.Errorf("functions: function %q: %w", d.Function.Name, err)
		}
	}
	return nil
}

// URL is where a group's batches go.
func (d Deployment) URL(group int) (string, error) {
	return d.Provider.CallURL(d.Plan.Groups[group].at(d.Function.Name))
}

func (o Offer) at(function string) pipelines.FunctionSize {
	return pipelines.FunctionSize{
		Function: function, Platform: string(o.Platform), VCPU: o.VCPU, GPUMemory: o.GPUMemory, Batch: o.Batch,
	}
}

// Describe is the size of the function in words, such as "2 GB GPU".
func (o Offer) Describe() string { return o.size() }
