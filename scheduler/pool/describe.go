package pool

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Describe draws the plan as a few lines of text.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Pool, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s pool, policy %s, cost %.4g an hour of %.4g, SLO %v\n", p.Pool, p.Status, p.Policy, p.Cost, p.Budget, p.SLO)
	for _, name := range slices.Sorted(maps.Keys(p.Instances)) {
		fmt.Fprintf(&b, "  %d x %s, a second worth %.3g of the base\n", p.Instances[name], name, p.Coefficients[name])
	}
	fmt.Fprintf(&b, "  goodput %.4g queries/s with %s arrivals", p.Goodput, p.Arrivals)
	if p.Arrivals != "poisson" {
		fmt.Fprintf(&b, ", %.4g with Poisson arrivals", p.Poisson)
	}
	b.WriteByte('\n')
	if p.Policy == PolicyKairos {
		fmt.Fprintf(&b, "  the paper estimates %.4g\n", p.UpperBound)
	}
	fmt.Fprintf(&b, "  no way to distribute queries exceeds %.4g here", p.ProvenBound)
	if p.BestBound > 0 {
		fmt.Fprintf(&b, ", nor %.4g with any of %d configurations (gap %.1f %%, %d simulated)", p.BestBound, p.Configurations, 100*p.Gap(), p.Simulated)
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
