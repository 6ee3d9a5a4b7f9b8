package functions

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/scheduler/bayes"
)

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

// merge makes neighbours one group, and reports whether that costs less.
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

// The search of MBS+.
const (
	// mbsSteps are the functions that are tried for a group: one to begin with,
	// and ten by Bayesian optimisation, as in the authors' program.
	mbsSteps = 11
	// mbsDrawn is among how many functions, drawn again at every step, the most
	// promising is sought: the improvement to expect is maximised over a sample.
	mbsDrawn = 128
	// mbsLength is the distance, in the unit cube, over which costs hang together.
	mbsLength = 0.3
)

// searched provisions groups as MBS+ does: of the functions that keep the
// group's objectives eleven are tried, and the cheapest of those is taken. The
// first is drawn; the model of costs is a Gaussian process over platform, size
// and batch. The same seed makes the same plans.
//
// The authors let the search find out which functions keep the objectives. Here only those
// are candidates, which can only help it, and a group that can be provisioned is.
func (s *planner) searched(seed uint64) func([]app) cluster {
	draw := rand.New(rand.NewPCG(seed, 0))
	var keep []int
	return func(members []app) cluster {
		g := cluster{members: members, demand: fold(members)}
		keep = keep[:0]
		for i := range s.catalogue.offers {
			if o := &s.catalogue.offers[i]; o.Max <= g.demand.limit(o.Batch) {
				keep = append(keep, i)
			}
		}
		g.offer = s.try(keep, draw)
		return g
	}
}

// try looks at few of the offers, and returns the cheapest; nil without any.
func (s *planner) try(keep []int, draw *rand.Rand) *Offer {
	var best *Offer
	var tried []bayes.Tried
	for len(tried) < mbsSteps && len(keep) > 0 {
		sample := min(mbsDrawn, len(keep))
		for i := range sample {
			k := i + draw.IntN(len(keep)-i)
			keep[i], keep[k] = keep[k], keep[i]
		}
		points := make([][]float64, sample)
		for i := range points {
			points[i] = s.point(s.catalogue.offers[keep[i]])
		}
		at := bayes.Next(tried, points, mbsLength)
		o := &s.catalogue.offers[keep[at]]
		tried = append(tried, bayes.Tried{At: points[at], Value: -math.Log(math.Max(o.Cost, math.SmallestNonzeroFloat64))})
		if best == nil || o.Cost < best.Cost {
			best = o
		}
		keep[at] = keep[len(keep)-1]
		keep = keep[:len(keep)-1]
	}
	return best
}

// point is an offer in the unit cube: platform, share of the largest size, share
// of the largest batch, both by their logarithms.
func (s *planner) point(o Offer) []float64 {
	share := func(x, most float64) float64 {
		if most <= 1 {
			return 0
		}
		return math.Max(0, math.Log(x+1)/math.Log(most+1))
	}
	p := &s.problem
	if o.Platform == CPU {
		return []float64{0, share(o.VCPU, p.Provider.VCPU.Max), share(float64(o.Batch), float64(s.catalogue.batch))}
	}
	return []float64{1, share(o.GPUMemory, p.Provider.GPUMemory.Max), share(float64(o.Batch), float64(s.catalogue.batch))}
}

// batch is policy BATCH (Ali, Pinciroli, Yan, Smirni 2020) as the paper compares
// with it: every application by itself on CPU functions, the cheapest size and
// batch by exhaustive search. It takes the average latency for the longest, so its plans
// may miss objectives; Plan.Sound is then false.
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
