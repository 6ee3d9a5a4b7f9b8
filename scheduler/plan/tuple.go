package plan

import (
	"math"
	"time"
)

// tuple serves the module with a single configuration: full machines and one
// that is partly used, both within the budget. It is the papers' ablation of
// several configurations a module (Harp-1c, Picc-1bpc); the rest of the policy
// stays, so dummy requests may fill the last machine, or pace it.
func (s *scheduler) tuple(budget time.Duration) (best schedule, found bool) {
	for _, c := range s.configs {
		for _, extra := range s.fills(c, budget) {
			try, _, ok := s.alike(c, s.rate+extra, budget)
			if ok && (!found || cheaper(try.weight, best.weight)) {
				try.dummies = extra
				best, found = try, true
			}
		}
	}
	return best, found
}

// fills are the dummy rates worth trying when all requests go to c.
func (s *scheduler) fills(c config, budget time.Duration) []float64 {
	if s.noDummies {
		return []float64{0}
	}
	full := math.Floor(s.rate/c.throughput()+rateTolerance) * c.throughput()
	list := []float64{0}
	for _, want := range []float64{c.throughput(), collectRate(c, budget)} {
		if extra := full + want - s.rate; extra > rateTolerance*s.rate {
			list = append(list, extra)
		}
	}
	return list
}

// wholeMachines is the least rate, no lower than given, that fills whole
// machines of c.
func wholeMachines(rate float64, c config) float64 {
	return math.Max(1, math.Ceil(rate/c.throughput()-rateTolerance)) * c.throughput()
}
