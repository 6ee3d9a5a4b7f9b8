package paper

import "github.com/harpagon/harpagon/scheduler/plan"

// Names lists the policies of this package.
func Names() []string {
	return []string{plan.PolicyHarpagon, plan.PolicyPiccolo, plan.PolicyNexus, plan.PolicyScrooge, plan.PolicyInferLine, plan.PolicyClipper, plan.PolicyBrute}
}

// Named is a policy of this package, nil where there is none of that name. Each
// has a file of its own, which can be deleted with its line here.
func Named(name string) plan.Policy {
	switch name {
	case plan.PolicyHarpagon:
		return harpagon()
	case plan.PolicyPiccolo:
		return piccolo()
	case plan.PolicyNexus:
		return nexus()
	case plan.PolicyScrooge:
		return scrooge()
	case plan.PolicyInferLine:
		return inferline()
	case plan.PolicyClipper:
		return clipper()
	case plan.PolicyBrute:
		return brute{}
	}
	return nil
}
