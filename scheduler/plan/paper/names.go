package paper

import "github.com/harpagon/harpagon/scheduler/plan"

// maker is a policy by its name.
type maker struct {
	name string
	make func() plan.Policy
}

// makers lists the policies of this package. Each has a file of its own, which can be deleted
// with its line here; pipelines.PlanPolicies lists what declarations may set of them.
func makers() []maker {
	return []maker{
		{plan.PolicyHarpagon, func() plan.Policy { return harpagon() }},
		{plan.PolicyPiccolo, func() plan.Policy { return piccolo() }},
		{plan.PolicyNexus, nexus},
		{plan.PolicyScrooge, func() plan.Policy { return scrooge() }},
		{plan.PolicyInferLine, func() plan.Policy { return inferline() }},
		{plan.PolicyClipper, clipper},
		{plan.PolicyBrute, func() plan.Policy { return brute{} }},
	}
}

// Names lists the policies of this package.
func Names() []string {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
	}
	return names
}

// Named is a policy of this package, nil where there is none of that name.
func Named(name string) plan.Policy {
	for _, m := range makers() {
		if m.name == name {
			return m.make()
		}
	}
	return nil
}
