package functions

import "slices"

// Range and width of the search for knee rates, in requests per second (the
// range as in the authors' program).
const (
	kneeLow       = 0.01
	kneeHigh      = 40.0
	kneeTolerance = 1e-3
)

// harmonyBatch merges groups in two stages (the paper's Algorithm 1). Groups
// are neighbours in the order of objectives, and begin with one application
// each. A merge is kept when it lowers the cost (the paper's function Merge).
func (s *planner) harmonyBatch() []cluster {
	var groups []cluster
	for i := range s.apps {
		groups = append(groups, s.cluster(s.apps[i:i+1]))
	}
	return s.mergeGPU(s.mergeCPU(groups))
}

// mergeCPU is the first stage: neighbours on CPU functions add up their rates;
// when the sum passes the knee, from where a GPU function is cheaper, they
// become one group. A GPU group ends a run, and so does a merge.
func (s *planner) mergeCPU(groups []cluster) []cluster {
	var out []cluster
	run := 0 // groups at the end of out that wait to be merged
	rate := 0.0
	for _, g := range groups {
		out = append(out, g)
		if g.offer != nil && g.offer.Platform == GPU {
			run, rate = 0, 0
			continue
		}
		run++
		rate += g.demand.rate
		from := len(out) - run
		if rate > s.knee(out[from].demand.first) {
			if merged, ok := s.merge(out[from:]); ok {
				out = append(out[:from], merged)
			}
			run, rate = 0, 0
		}
	}
	return out
}

// mergeGPU is the second stage: neighbours of which at least one is on a GPU
// function become one group where that is cheaper; after a merge the walk steps
// back by one.
func (s *planner) mergeGPU(groups []cluster) []cluster {
	for i := 0; i+1 < len(groups) && !s.ended(); {
		if onGPU(groups[i]) || onGPU(groups[i+1]) {
			if merged, ok := s.merge(groups[i : i+2]); ok {
				groups = slices.Replace(groups, i, i+2, merged)
				i = max(0, i-1)
				continue
			}
		}
		i++
	}
	return groups
}

func onGPU(g cluster) bool { return g.offer != nil && g.offer.Platform == GPU }

// merge makes neighbours one group, and says whether that costs less.
func (s *planner) merge(groups []cluster) (cluster, bool) {
	if len(groups) < 2 {
		return cluster{}, false
	}
	var members []app
	for _, g := range groups {
		members = append(members, g.members...)
	}
	merged := s.cluster(members)
	return merged, spending(merged.offer, merged.demand) < total(groups)*(1-costTolerance)
}

// knee is the rate from which a single application with that objective is
// cheaper on a GPU function, by bisection; kneeHigh where it never is.
func (s *planner) knee(slo float64) float64 {
	gpu := func(rate float64) bool { return onGPU(cluster{offer: s.catalogue.best(alone(slo, rate))}) }
	low, high := kneeLow, kneeHigh
	switch {
	case gpu(low):
		return low
	case !gpu(high):
		return high
	}
	for high-low > kneeTolerance {
		if mid := (low + high) / 2; gpu(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
