package cluster

import "math"

// mostExact bounds the assignments that are enumerated.
const mostExact = 200_000

// few says whether all assignments can be looked at.
func (p *PartitionProblem) few() bool {
	return float64(len(p.Models))*math.Log(float64(p.SubClusters)) <= math.Log(mostExact)
}

// enumerate finds the best assignment of few models; ok is false where none is
// allowed.
func (s *state) enumerate() (best []int, ok bool) {
	least := math.Inf(1)
	var visit func(i int)
	visit = func(i int) {
		if i == len(s.of) {
			if objective, _, _ := s.worth(); objective < least-partitionRounding {
				least, best = objective, append(best[:0], s.of...)
			}
			return
		}
		for j := range s.in {
			empty := len(s.in[j]) == 0
			if s.fits(i, j, -1) && s.affordable(s.moving(i, j)) {
				s.put(i, j)
				visit(i + 1)
				s.take(i)
			}
			if empty && s.p.Current == nil {
				break // the other empty ones are alike
			}
		}
	}
	visit(0)
	return best, best != nil
}
