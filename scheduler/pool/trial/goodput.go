package trial

import (
	"math"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Search says what a sustained rate is and how closely to look for it.
type Search struct {
	Attainment float64 // share of queries to serve within the SLO
	Tolerance  float64 // relative width at which the search ends
}

// DefaultSearch looks for the house's goodput: 99 % within the SLO, to half a
// percent.
func DefaultSearch() Search { return Search{Attainment: 0.99, Tolerance: 0.005} }

// Sustains says whether the policy reaches the attainment at the rate.
func (s Search) Sustains(p Pool, policy dispatch.Policy, load Load, rate float64) bool {
	allowed := int(math.Floor((1 - s.Attainment) * float64(load.Len())))
	r := play(p, policy, load, rate, allowed)
	return r.Late+r.Dropped <= allowed
}

// Goodput is the highest rate at which the policy reaches the attainment, found
// by bisection below a rate that cannot be sustained; make builds the policy
// anew for each run. It takes attainment to fall as the rate rises; where it
// does not quite, the result is a rate that is sustained all the same.
func (s Search) Goodput(p Pool, make func() dispatch.Policy, load Load, above float64) float64 {
	return s.GoodputBetween(p, make, load, 0, above)
}

// GoodputBetween is Goodput where a rate is known already that is sustained.
func (s Search) GoodputBetween(p Pool, make func() dispatch.Policy, load Load, low, high float64) float64 {
	if math.IsInf(high, 1) || math.IsNaN(high) {
		return low
	}
	for floor := high * leastRate; high-low > s.Tolerance*high && high > floor; {
		middle := (low + high) / 2
		if low == 0 {
			middle = mostlyNear * high
		}
		if s.Sustains(p, make(), load, middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

const (
	leastRate  = 1e-6 // relative to the bound: slower counts as not at all
	mostlyNear = 0.9  // a bound is often near, so the search starts close to it
)
