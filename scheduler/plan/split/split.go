package split

// Cost is the trade-off of one module between its budget and what it costs
// under that budget, as the search over splits of the SLO sees it: a cost that
// falls as the budget grows. Times are in seconds, costs in scaled weights.
//
// Under the proportional cost model these are Curves, continuous in pieces;
// under the whole one Steps.
type Cost interface {
	// At is the least cost under a budget, +Inf where there is none, and the
	// number of the curve or step that reaches it, -1 where there is none.
	At(budget float64) (cost float64, which int)

	// Least is the smallest value of cost(L) + price·L over low <= L <= high,
	// and the budget that reaches it.
	Least(price, low, high float64) (value, budget float64)

	// Fastest is the least budget that has a finite cost.
	Fastest() float64

	// Size is the number of curves or steps.
	Size() int

	// Divide is where a box is best cut that holds the budget mid: budgets of
	// the lower half end at below, those of the upper half begin at above.
	Divide(mid, low, high float64) (below, above float64, ok bool)
}
