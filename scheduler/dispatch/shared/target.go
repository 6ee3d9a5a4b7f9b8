package shared

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// staggered is the batch to aim for when n executors take turns: the largest b
// with l(b)·(1 + 1/n) <= budget, where n = rate·l(b)/b executors are needed to
// keep up, at least 1. A batch that even one executor has time to wait for is
// bounded by its collection instead: l(b) + b/rate <= budget (Symphony,
// section 4.2, equations 2 and 3, as its code solves them). The delay of the
// batch counts as part of its duration. At least 1.
func staggered(table profile, delay dispatch.Delay, budget dispatch.Time, rate float64) int {
	low, high := 1, len(table)
	for low < high {
		b := (low + high + 1) / 2
		l := float64(table[b-1])
		need := rate * l / 1e9 / float64(b)
		wait := l / need
		if need <= 1 {
			wait = float64(b) / rate * 1e9
		}
		if l+float64(delay.Of(b))+wait <= float64(budget) {
			low = b
		} else {
			high = b - 1
		}
	}
	return low
}

// half is the batch to aim for before a rate is known: l(b) <= budget/2.
func half(table profile, delay dispatch.Delay, budget dispatch.Time) int {
	return max(1, table.fit(budget/2-delay.Control))
}

// held is the batch that a model collects when it is held back as long as its
// deadline allows: the b with l(b) + (b-1)/rate = budget, between whole numbers
// by the chord of the profile. At least 1.
func held(table profile, delay dispatch.Delay, budget dispatch.Time, rate float64) float64 {
	over := func(b int) float64 { // how far b exceeds the budget
		return float64(table.of(b)) + float64(delay.Of(b)) + float64(b-1)/rate*1e9 - float64(budget)
	}
	low, high := 1, len(table)
	for low < high {
		b := (low + high + 1) / 2
		if over(b) <= 0 {
			low = b
		} else {
			high = b - 1
		}
	}
	below := over(low)
	if low == len(table) || below >= 0 {
		return float64(low)
	}
	return float64(low) + below/(below-over(low+1))
}
