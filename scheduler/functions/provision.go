package functions

import "math"

// best is the cheapest offer that keeps the objectives of the group with full
// batches; nil when there is none.
//
// It is exact: an offer fits when its maximum latency is at most
// demand.limit(batch), and within one batch size slower is cheaper, so the last
// step of the frontier below the limit is the cheapest that fits. Frontiers stand in
// order of their least costs, so the search ends when no later one can win.
// The paper proves as much for its formulas step by step (Theorems 1 and 2),
// which billing in steps would break; frontiers allow for that.
func (c *catalogue) best(d demand) *Offer {
	var found *Offer
	least := math.Inf(1)
	for i := range c.frontiers {
		s := &c.frontiers[i]
		if s.floor() >= least {
			break
		}
		if o := s.within(d.limit(s.batch)); o != nil && o.Cost < least {
			found, least = o, o.Cost
		}
	}
	return found
}

// spending is what the group costs at best, in money per second; infinite when
// no offer fits.
func (c *catalogue) spending(d demand) float64 {
	return spending(c.best(d), d)
}

func spending(o *Offer, d demand) float64 {
	if o == nil {
		return math.Inf(1)
	}
	return o.Cost * d.rate
}
