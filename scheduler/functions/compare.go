package functions

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Comparison is one function planned by several policies.
type Comparison struct {
	Function string `json:"function"`
	Plans    []Plan `json:"plans"` // in the order of the policies
}

// Compare plans the function by the policies given, or by every one.
func Compare(p Problem, o Options, policies ...string) (Comparison, error) {
	if len(policies) == 0 {
		policies = Policies()
	}
	c := Comparison{Function: p.Function.Name}
	for _, policy := range policies {
		o.Policy = policy
		plan, err := Solve(p, o)
		if err != nil {
			return Comparison{}, err
		}
		c.Plans = append(c.Plans, plan)
	}
	return c, nil
}

// Plan by that policy, or nil.
func (c Comparison) Plan(policy string) *Plan {
	for i := range c.Plans {
		if c.Plans[i].Policy == policy {
			return &c.Plans[i]
		}
	}
	return nil
}

// Best is the cheapest sound plan; nil where there is none.
func (c Comparison) Best() *Plan {
	var best *Plan
	for i := range c.Plans {
		p := &c.Plans[i]
		if p.Status != Infeasible && p.Sound && (best == nil || p.CostPerRequest < best.CostPerRequest) {
			best = p
		}
	}
	return best
}

// Describe writes one line a policy; costs are beside that of the first one.
func (c Comparison) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", c.Function)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tper million\tratio\tgroups\tsound\tstatus\tsolved in\t")
	for _, p := range c.Plans {
		if p.Status == Infeasible {
			fmt.Fprintf(w, "%s\t\t\t\t\t%s: %s\t\t\n", p.Policy, p.Status, p.Reason)
			continue
		}
		ratio := "1"
		if first := c.Plans[0]; first.CostPerRequest > 0 {
			ratio = fmt.Sprintf("%.3f", p.CostPerRequest/first.CostPerRequest)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%s\t%s\t\n", p.Policy, quantity.Money(1e6*p.CostPerRequest), ratio, len(p.Groups), p.Sound, p.Status, quantity.Duration(p.SolveTime))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
