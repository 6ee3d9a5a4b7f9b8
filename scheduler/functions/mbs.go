package functions

// rateTolerance is the share of a group's rate below which what is left of an
// application is rounding.
const rateTolerance = 1e-9

// mbs is policy MBS+, the paper's extension of MBS (Ali, Pinciroli, Yan, Smirni
// 2022): for every number of groups, the total rate is cut into groups of equal
// rate in the order of objectives, through applications where need be, and the
// cheapest number is taken. How a group is provisioned is given: as the authors
// do (searched), or at its best, which never costs more. Told to end, it takes
// the cheapest number so far.
func (s *planner) mbs(provision func([]app) cluster) []cluster {
	sum := 0.0
	for _, a := range s.apps {
		sum += a.rate
	}
	if sum == 0 {
		return s.contiguous()
	}
	var best []cluster
	for n := 1; n <= len(s.apps); n++ {
		if best != nil && s.ended() {
			break
		}
		groups := s.cut(n, sum/float64(n), provision)
		if best == nil || total(groups) < total(best)*(1-costTolerance) {
			best = groups
		}
	}
	return best
}

// cut makes n groups of the same rate.
func (s *planner) cut(n int, rate float64, provision func([]app) cluster) []cluster {
	var groups []cluster
	var members []app
	room := rate
	for _, a := range s.apps {
		for len(groups) < n-1 && a.rate > room*(1+rateTolerance) {
			if part := a; room > rate*rateTolerance {
				part.rate = room
				members = append(members, part)
				a.rate -= room
			}
			groups = append(groups, provision(members))
			members, room = nil, rate
		}
		members = append(members, a)
		room -= a.rate
	}
	return append(groups, provision(members))
}
