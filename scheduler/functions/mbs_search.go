package functions

import (
	"math"
	"math/rand/v2"

	"github.com/harpagon/harpagon/scheduler/bayes"
)

// The search of MBS+.
const (
	// mbsSteps are the functions that are tried for a group: one to begin with,
	// and ten by Bayesian optimisation, as in the authors' program.
	mbsSteps = 11
	// mbsDrawn is among how many functions, drawn anew at every step, the most
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
// The authors let the search find out which functions keep the objectives. Here
// it is told, which can only help it, and a group that can be provisioned is.
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
