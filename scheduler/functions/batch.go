package functions

// batch is policy BATCH (Ali, Pinciroli, Yan, Smirni 2020) as the paper compares
// with it: every application by itself on CPU functions, the cheapest size and
// batch by exhaustive search. It takes the average latency for the longest, so
// its plans may miss objectives; Plan.Sound says so.
func (s *planner) batch() []cluster {
	c := s.batchCatalogue()
	var groups []cluster
	for i, a := range s.apps {
		g := cluster{members: s.apps[i : i+1], demand: alone(a.slo, a.rate)}
		if o := c.best(g.demand); o != nil {
			real := *o
			real.Max = s.longest(real)
			g.offer = &real
		}
		groups = append(groups, g)
	}
	return groups
}

// batchCatalogue is CPU functions, with averages in place of maxima.
func (s *planner) batchCatalogue() *catalogue {
	offers := cpuOffers(s.problem)
	for i := range offers {
		offers[i].Max = offers[i].Avg
	}
	return newCatalogue(offers)
}

// longest is the maximum latency of a CPU function, whatever the policy thinks.
func (s *planner) longest(o Offer) float64 {
	for _, c := range s.problem.Function.Profile.CPU {
		if c.Batch == o.Batch {
			return c.Max.At(o.VCPU) + s.problem.Function.CallOverhead(&s.problem.Provider).Seconds()
		}
	}
	return o.Avg
}
