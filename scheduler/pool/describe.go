package pool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Describe draws the plan as a few lines of text.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Pool, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s pool, policy %s, cost %s an hour of %s, SLO %v\n", p.Pool, p.Status, p.Policy, quantity.Money(p.Cost), quantity.Money(p.Budget), p.SLO)
	if p.Goodput == 0 {
		fmt.Fprintf(&b, "  %s, to learn what queries take there\n", p.instances())
		return b.String()
	}
	for _, name := range slices.Sorted(maps.Keys(p.Instances)) {
		fmt.Fprintf(&b, "  %d x %s, a second worth %s of the base\n", p.Instances[name], name, quantity.Number(p.Coefficients[name]))
	}
	fmt.Fprintf(&b, "  goodput %s queries/s with %s arrivals", quantity.Number(p.Goodput), p.Arrivals)
	if p.Arrivals != "poisson" {
		fmt.Fprintf(&b, ", %s with Poisson arrivals", quantity.Number(p.Poisson))
	}
	b.WriteByte('\n')
	if p.Policy == PolicyKairos {
		fmt.Fprintf(&b, "  the paper estimates %s\n", quantity.Number(p.UpperBound))
	}
	fmt.Fprintf(&b, "  no way to distribute queries exceeds %s here", quantity.Number(p.ProvenBound))
	if p.BestBound > 0 {
		fmt.Fprintf(&b, ", nor %s with any of %d configurations (gap %s, %d simulated)", quantity.Number(p.BestBound), p.Configurations, quantity.Percent(p.Gap()), p.Simulated)
	}
	b.WriteByte('\n')
	return b.String()
}

// instances lists how many there are of each kind, by name.
func (p Plan) instances() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.Instances)) {
		parts = append(parts, fmt.Sprintf("%d x %s", p.Instances[name], name))
	}
	return strings.Join(parts, ", ")
}
