package plan

import (
	"math"
	"slices"
)

// stairStep is one step of a stair: from this budget on the module costs no more
// than cost.
type stairStep struct {
	budget float64 // seconds
	cost   float64 // scaled weight
}

// stair is the trade-off of a module that runs on whole devices: the cost falls
// in steps as the budget grows. Budgets rise strictly, costs fall strictly. A
// stair without steps is that of a module that receives nothing.
type stair []stairStep

// newStair keeps the steps that no other undercuts in both budget and cost.
func newStair(steps []stairStep) stair {
	slices.SortFunc(steps, func(a, b stairStep) int {
		switch {
		case a.budget < b.budget || a.budget == b.budget && a.cost < b.cost:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	var s stair
	for _, x := range steps {
		if len(s) == 0 || x.cost < s[len(s)-1].cost*(1-costTolerance) {
			s = append(s, x)
		}
	}
	return s
}

// upTo is the number of steps whose budget is at most that.
func (s stair) upTo(budget float64) int {
	n, _ := slices.BinarySearchFunc(s, budget, func(x stairStep, budget float64) int {
		if x.budget > budget {
			return 1
		}
		return -1
	})
	return n
}

func (s stair) at(budget float64) (float64, int) {
	if len(s) == 0 {
		return 0, -1
	}
	n := s.upTo(budget)
	if n == 0 {
		return math.Inf(1), -1
	}
	return s[n-1].cost, n - 1
}

func (s stair) least(price, low, high float64) (value, budget float64) {
	if len(s) == 0 {
		return price * low, low
	}
	value, budget = math.Inf(1), low
	first := max(0, s.upTo(low)-1)
	for _, x := range s[first:max(first, s.upTo(high))] {
		l := math.Max(low, x.budget)
		if v := x.cost + price*l; v < value {
			value, budget = v, l
		}
	}
	return value, budget
}

func (s stair) size() int { return len(s) }

func (s stair) fastest() float64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].budget
}

// divide cuts between two steps: a budget between them buys nothing more than
// the lower one does.
func (s stair) divide(mid, low, high float64) (below, above float64, ok bool) {
	const halfNanosecond = 0.5e-9
	n := s.upTo(mid)
	if n == s.upTo(high) { // nothing above mid: cut below it
		n--
	}
	if n < 1 || s[n].budget > high || s[n].budget <= low {
		return 0, 0, false
	}
	return s[n].budget - halfNanosecond, s[n].budget, true
}
