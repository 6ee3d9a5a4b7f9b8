package split

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Step is one of Steps: from this budget on the module costs no more
// than cost.
type Step struct {
	Budget float64 // seconds
	Cost   float64 // scaled weight
}

// Steps are the trade-off of a module that runs on whole devices: the cost falls
// in steps as the budget grows. Budgets rise strictly, costs fall strictly. A
// Without steps it is that of a module that receives nothing.
type Steps []Step

// NewSteps keeps the steps that no other undercuts in both budget and cost.
func NewSteps(steps []Step) Steps {
	slices.SortFunc(steps, func(a, b Step) int {
		switch {
		case a.Budget < b.Budget || a.Budget == b.Budget && a.Cost < b.Cost:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	var s Steps
	for _, x := range steps {
		if len(s) == 0 || x.Cost < s[len(s)-1].Cost*(1-plan.CostTolerance) {
			s = append(s, x)
		}
	}
	return s
}

// upTo is the number of steps whose budget is at most that.
func (s Steps) upTo(budget float64) int {
	n, _ := slices.BinarySearchFunc(s, budget, func(x Step, budget float64) int {
		if x.Budget > budget {
			return 1
		}
		return -1
	})
	return n
}

// At is the least cost under a budget and the number of its step; see Cost.
func (s Steps) At(budget float64) (float64, int) {
	if len(s) == 0 {
		return 0, -1
	}
	n := s.upTo(budget)
	if n == 0 {
		return math.Inf(1), -1
	}
	return s[n-1].Cost, n - 1
}

// Least is the smallest value of cost plus priced budget; see Cost.
func (s Steps) Least(price, low, high float64) (value, budget float64) {
	if len(s) == 0 {
		return price * low, low
	}
	return s.between(low, high).cheapest(price, low)
}

// between are the steps that reach a budget from low to high.
func (s Steps) between(low, high float64) Steps {
	first := max(0, s.upTo(low)-1)
	return s[first:max(first, s.upTo(high))]
}

// cheapest is Least of all steps.
func (s Steps) cheapest(price, low float64) (value, budget float64) {
	value, budget = math.Inf(1), low
	for _, x := range s {
		l := max(low, x.Budget)
		if v := x.Cost + price*l; v < value {
			value, budget = v, l
		}
	}
	return value, budget
}

// hull is the lower convex hull of the steps between two budgets; room is one that is not
// needed any more.
func (s Steps) hull(low, high float64, room Steps) Steps {
	hull := room[:0]
	for _, x := range s.between(low, high) {
		x.Budget = max(low, x.Budget)
		for n := len(hull); n > 1; n-- {
			a, b := hull[n-2], hull[n-1]
			if (b.Cost-a.Cost)*(x.Budget-a.Budget) <= (x.Cost-a.Cost)*(b.Budget-a.Budget) {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, x)
	}
	return hull
}

// Size is the number of steps.
func (s Steps) Size() int { return len(s) }

// Fastest is the least budget that has a cost.
func (s Steps) Fastest() float64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].Budget
}

// Divide cuts between two steps: a budget between them buys nothing more than
// the lower one does.
func (s Steps) Divide(mid, low, high float64) (below, above float64, ok bool) {
	const halfNanosecond = 0.5e-9
	n := s.upTo(mid)
	if n == s.upTo(high) { // nothing above mid: cut below it
		n--
	}
	if n < 1 || s[n].Budget > high || s[n].Budget <= low {
		return 0, 0, false
	}
	return s[n].Budget - halfNanosecond, s[n].Budget, true
}
