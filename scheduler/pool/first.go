package pool

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
)

// first is the plan of a pool of which nothing is known yet (Pool.Learns): a base
// instance, one of each other kind so that queries tell what it takes, in the order
// declared, and the rest of the budget for more of the base. What it serves is not known.
func first(plan Plan, p Problem) Plan {
	plan.Status, plan.Reason = Infeasible, fmt.Sprintf("the base %q is not among the kinds of hardware of the pool", p.Pool.Base)
	left := p.Pool.Budget * (1 + priceTolerance)
	rent := func(h pipelines.Hardware, most int) {
		n := 0
		for n < most && h.Price <= left && (h.Count == 0 || plan.Instances[h.Name] < h.Count) {
			left -= h.Price
			plan.Cost += h.Price
			plan.Instances[h.Name]++
			n++
		}
	}
	at := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == p.Pool.Base })
	if at < 0 {
		return plan
	}
	base := p.Hardware[at]
	plan.Instances = map[string]int{}
	if rent(base, 1); plan.Cost == 0 {
		plan.Reason = fmt.Sprintf("a budget of %g an hour does not pay for one base instance (%s, %g an hour)", p.Pool.Budget, base.Name, base.Price)
		return plan
	}
	for _, name := range p.Pool.Kinds(p.Hardware) {
		i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == name })
		if i >= 0 && name != base.Name {
			rent(p.Hardware[i], 1)
		}
	}
	rent(base, mostOfBase)
	plan.Status, plan.Reason = Feasible, ""
	return plan
}

// mostOfBase bounds the instances of a first plan where hardware costs next to nothing.
const mostOfBase = 64
