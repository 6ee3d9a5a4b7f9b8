package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Comparison is one pool planned by several policies.
type Comparison struct {
	Pool  string `json:"pool"`
	Plans []Plan `json:"plans"`
}

// Compare plans the pool by the policies given, or by every one.
func Compare(p Problem, o Options, policies ...string) Comparison {
	if len(policies) == 0 {
		policies = compared()
	}
	c := Comparison{Pool: p.Pool.Name}
	for _, name := range policies {
		o.Policy = name
		c.Plans = append(c.Plans, Solve(p, o))
	}
	return c
}

// Best is the plan with the highest goodput; nil where none is feasible.
func (c Comparison) Best() *Plan {
	feasible := slices.DeleteFunc(slices.Clone(c.Plans), func(p Plan) bool { return p.Status == Infeasible })
	if len(feasible) == 0 {
		return nil
	}
	best := slices.MaxFunc(feasible, func(a, b Plan) int { return cmp.Compare(a.Goodput, b.Goodput) })
	return &best
}

// Describe draws the comparison as a table.
func (c Comparison) Describe() string {
	best := c.Best()
	if best == nil {
		return fmt.Sprintf("%s: infeasible: %s\n", c.Pool, c.Plans[0].Reason)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: goodput in queries/s with %s arrivals, budget %s an hour\n", c.Pool, best.Arrivals, quantity.Money(best.Budget))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  policy\tcost\tgoodput\tof best\tPoisson\tbound\tinstances")
	for _, p := range c.Plans {
		if p.Status == Infeasible {
			fmt.Fprintf(w, "  %s\tinfeasible: %s\n", p.Policy, p.Reason)
			continue
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%.3f\t%s\t%s\t%s\n", p.Policy, quantity.Money(p.Cost), quantity.Number(p.Goodput),
			p.Goodput/best.Goodput, quantity.Number(p.Poisson), quantity.Number(p.ProvenBound), p.instances())
	}
	_ = w.Flush() // writing to memory does not fail
	return b.String()
}
