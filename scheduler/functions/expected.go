package functions

import (
	"math"
	"time"
)

// expected is what a request of the group costs on average when requests come at random
// (Poisson), as the provider bills it. Group.Cost takes every batch for full; here a
// batch holds its first request and those that come within the group's equivalent
// timeout, up to the batch size. Instances that have to start cost nothing more: a cold
// start is not billed.
func (p Problem) expected(g *Group) float64 {
	if g.Rate <= 0 {
		return g.Cost
	}
	mean := g.Rate * g.Timeout.Seconds()
	share, rest := math.Exp(-mean), 1.0
	money, size := 0.0, 0.0
	for n := 1; n <= g.Batch; n++ {
		if n == g.Batch {
			share = rest
		}
		avg, _ := p.Latency(g.Offer, n)
		_, one := Bill(&p.Provider, g.Offer, time.Duration(avg*float64(time.Second)))
		money += share * one
		size += share * float64(n)
		rest = max(0, rest-share)
		share *= mean / float64(n)
	}
	return money / size
}

// expect adds what requests cost where they come at random.
func (p *Plan) expect(of Problem) {
	sum := 0.0
	for i := range p.Groups {
		sum += of.expected(&p.Groups[i]) * p.Groups[i].Rate
	}
	if p.ExpectedCost = p.CostPerRequest; p.Rate > 0 {
		p.ExpectedCost = sum / p.Rate
	}
}
