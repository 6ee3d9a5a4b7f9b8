package experiments

import (
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Variant is a way to plan that is judged.
type Variant struct {
	Name    string
	Options plan.Options
	What    string  // for an ablation: what is switched off
	Printed float64 // average normalized cost that the Harpagon paper prints; 0 when it prints none
	Every   int     // solve only every so many workloads, for what is slow; 0 means all
}

// sampled is how many workloads there are for each one that a slow policy is
// runPublished on. Applications come in turn, five of them, so neither is a multiple of five.
func sampled(policy, costModel string) int {
	switch {
	case policy != plan.PolicyBrute:
		return 0
	case costModel == plan.CostProportional:
		return 6 // what it was made for
	}
	return 24
}

// PlanningPolicies are all policies that have the cost model, in the order of
// plan.Policies.
func PlanningPolicies(costModel string) []Variant {
	var list []Variant
	for _, name := range policies.Names() {
		o := plan.Options{Policy: name, CostModel: costModel}
		if policies.Check(o) == nil {
			list = append(list, Variant{Name: name, Options: o, Every: sampled(name, costModel)})
		}
	}
	return list
}

// Ablations are the variants that a paper ("Harpagon" or "Piccolo") compares
// its policy with, the whole policy first. Printed are the averages that its
// text gives.
func Ablations(name string) []Variant {
	var list []Variant
	for _, a := range paper.Ablations() {
		if a.Paper != name {
			continue
		}
		if list == nil {
			whole := plan.Options{Policy: a.Options.Policy, CostModel: a.Options.CostModel}
			list = append(list, Variant{Name: name, What: "the whole policy", Printed: 1, Options: whole})
		}
		list = append(list, Variant{Name: a.Name, What: a.What, Printed: 1 + a.Extra, Options: a.Options})
	}
	return list
}
