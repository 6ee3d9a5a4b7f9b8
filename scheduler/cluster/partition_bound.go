package cluster

import (
	"math"
	"slices"
)

// bound is below the objective of every assignment that may be made.
func (s *state) bound() float64 {
	return s.least(s.rate) + s.weight*s.least(s.static)
}

// least is below the largest deviation from the average of one kind of amount.
func (s *state) least(amounts []float64) float64 {
	mean := average(amounts)
	least := crowded(amounts, len(s.in)) - mean
	if s.p.Current == nil || slices.Contains(s.p.Current, -1) {
		return max(0, least)
	}
	low, high := max(0, least), 0.0
	now := make([]float64, len(s.in))
	for i, at := range s.p.Current {
		now[at] += amounts[i]
	}
	for _, x := range now {
		high = max(high, math.Abs(x-mean))
	}
	for range bisections {
		middle := (low + high) / 2
		if s.reachable(amounts, now, mean, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return max(0, low-partitionRounding)
}

const bisections = 40

// crowded is at or below the most that some sub-cluster holds: of the k·n+1
// largest amounts one of n sub-clusters has at least k+1.
func crowded(amounts []float64, n int) float64 {
	sorted := slices.Clone(amounts)
	slices.SortFunc(sorted, func(a, b float64) int {
		if a > b {
			return -1
		}
		return 1
	})
	most := 0.0
	for k := 0; k*n < len(sorted); k++ {
		sum := 0.0
		for _, x := range sorted[k*n-k : k*n+1] {
			sum += x
		}
		most = max(most, sum)
	}
	return most
}

// reachable says that moves within the budget might bring all sub-clusters within
// that of the average: each that has too much sheds its largest models, at the
// price of the cheapest; each that has too little takes in the largest of all.
func (s *state) reachable(amounts, now []float64, mean, within float64) bool {
	cheapest := slices.Min(s.cost)
	moves := 0
	if cheapest > 0 {
		moves = int(s.p.Moves/cheapest*(1+partitionRounding) + partitionRounding)
	} else {
		return true
	}
	all := slices.Clone(amounts)
	descending(all)
	shed, taken := 0, 0
	for j, x := range now {
		if over := x - mean - within; over > partitionRounding {
			var own []float64
			for i, at := range s.p.Current {
				if at == j {
					own = append(own, amounts[i])
				}
			}
			descending(own)
			shed += count(own, over)
		}
		if under := mean - within - x; under > partitionRounding {
			taken += count(all, under)
		}
	}
	return shed <= moves && taken <= moves
}

func descending(list []float64) {
	slices.Sort(list)
	slices.Reverse(list)
}

// count is how many of the first amounts make up so much.
func count(list []float64, much float64) int {
	for i, x := range list {
		if much -= x; much <= partitionRounding {
			return i + 1
		}
	}
	return len(list) + 1
}
