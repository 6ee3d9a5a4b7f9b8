package suite

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
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
// run on. Applications come in turn, five of them, so no multiple of five.
func sampled(policy, costModel string) int {
	switch {
	case policy != plan.PolicyBrute:
		return 0
	case costModel == plan.CostProportional:
		return 3 // what it was made for
	}
	return 12
}

// Policies are all policies that have the cost model, in the order of
// plan.Policies.
func Policies(costModel string) []Variant {
	var list []Variant
	for _, name := range plan.Policies() {
		o := plan.Options{Policy: name, CostModel: costModel}
		if o.Check() == nil {
			list = append(list, Variant{Name: name, Options: o, Every: sampled(name, costModel)})
		}
	}
	return list
}

// OverHarpagon are the ablations, and after them the other policies that have
// their cost model: what the paper's Figures 5 and 6 compare with policy
// harpagon.
func OverHarpagon() []Variant {
	list := Ablations()
	for _, v := range Policies(plan.CostProportional) {
		if v.Name != plan.PolicyHarpagon {
			v.What = "policy " + v.Name
			list = append(list, v)
		}
	}
	return list
}

// Ablations are the variants of policy harpagon that section IV-C of its paper
// compares with, by its names for them, the whole policy first. Printed are the
// averages that the section's text gives.
func Ablations() []Variant {
	off := func(name, what string, printed float64, steps ...string) Variant {
		return Variant{Name: name, What: what, Printed: printed,
			Options: plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: steps}}
	}
	split := func(name, what string, printed float64, kind string) Variant {
		v := off(name, what, printed)
		v.Options.Split = kind
		return v
	}
	return slices.DeleteFunc([]Variant{
		off("Harpagon", "the whole policy", 1),
		off("Harp-2d", "round robin: requests one by one, worst case 2d", 1.796, "tc"),
		off("Harp-dt", "requests at the rate of one machine, worst case d + b/t", 1.441, "dt"),
		off("Harp-1c", "one configuration a module", 1.665, "multi:one"),
		off("Harp-2c", "at most two configurations a module", 1.030, "multi"),
		off("Harp-nb", "the smallest batch only", 1.896, "batch"),
		off("Harp-nhc", "the cheapest hardware only", 1.232, "hetero"),
		off("Harp-nhe", "the dearest hardware only", 1.140, "hetero:dearest"),
		off("Harp-nd", "no dummy requests", 1.008, "dummy"),
		off("Harp-0re", "what is left of the budget is not reassigned", 1.010, "reassign"),
		off("Harp-1re", "what is left is reassigned to one module", 1.006, "reassign:one"),
		split("Harp-tb", "split by throughput", 1.353, "throughput"),
		split("Harp-q0.1", "split in steps of 100 ms", 1.306, "quantized:100ms"),
		split("Harp-q0.01", "split in steps of 10 ms", 1.012, "quantized:10ms"),
		split("even", "split evenly", 0, "even"),
		off("Harp-nnm", "no node merger", 1.002, "merge"),
		off("Harp-ncd", "no cost-direct", 1.003, "direct"),
	}, func(v Variant) bool { return v.Options.Check() != nil })
}
