package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Stronger cuts: a device is either one module's alone, and then counts whole, or it
// has batches of another module, and those must wait for each other. So a module
// with n_k devices of its own costs, at prices l,
//
//	sum of n_k·l_k  +  (1 - sum of n_k·v_k(L)) · min over (k, b, d) of l_k·d/P,   P = min(b/T, max(g, L - d - w_k))
//
// the second term where it is positive; v_k(L) is the share of the stream that one
// device of its own serves at best (plan.ModuleProblem.Serves), and w_k the shortest batch that
// any other module may have on kind k. The least of it over whole numbers n_k falls
// with L; it is bounded from below by steps.

const (
	apartPoints = 40 // budgets, in one ratio, at which the steps change, besides those of own devices
	apartCounts = 64 // devices of a kind that are counted one by one
)

// apart is what one module costs at some prices.
type apart struct {
	m      *plan.ModuleProblem
	prices []float64
	kind   func(*plan.Config) int
	waits  []time.Duration // by kind
	run    [][]plan.Config // by kind
}

// at is the least cost under a budget, and what it uses of every kind, added to use
// where that is not nil.
func (a *apart) at(budget float64, use []float64) float64 {
	shared, on, per := math.Inf(1), -1, 0.0
	for k := range a.m.Configs {
		c := &a.m.Configs[k]
		i := a.kind(c)
		takes := c.Duration
		if c.Concurrency == 1 {
			takes += a.waits[i]
		}
		if period := a.m.Period(c, budget-takes.Seconds()); period > 0 {
			if cost := a.prices[i] * c.Interval() / period; cost < shared {
				shared, on, per = cost, i, c.Interval()/period
			}
		}
	}
	type own struct {
		index        int
		price, share float64
	}
	var list []own
	for k, configs := range a.run {
		share := 0.0
		for _, c := range configs {
			share = math.Max(share, a.m.Serves(&c, budget))
		}
		if price := a.prices[k]; share > 0 && price/share < shared {
			list = append(list, own{k, price, share})
		}
	}
	slices.SortFunc(list, func(x, y own) int { return cmp.Compare(x.price/x.share, y.price/y.share) })
	// Kinds are counted, the best two, and only where they are few; what others serve
	// is charged by the part of them.
	rest, restOn, restPer := shared, on, per
	counted := list[:0:0]
	for _, o := range list {
		if len(counted) < 2 && 1/o.share <= apartCounts {
			counted = append(counted, o)
		} else if o.price/o.share < rest {
			rest, restOn, restPer = o.price/o.share, o.index, 1/o.share
		}
	}
	best := math.Inf(1)
	var numbers [2]float64
	var visit func(k int, n [2]float64, sum, left float64)
	visit = func(k int, n [2]float64, sum, left float64) {
		if sum >= best {
			return
		}
		if left <= plan.RateTolerance {
			best, numbers = sum, n
			return
		}
		if k == len(counted) {
			if cost := sum + left*rest; cost < best {
				best, numbers = cost, n
			}
			return
		}
		o := counted[k]
		most := math.Max(1, math.Ceil(left/o.share-plan.RateTolerance))
		for x := most; x >= 0; x-- {
			n[k] = x
			visit(k+1, n, sum+x*o.price, left-x*o.share)
		}
	}
	visit(0, numbers, 0, 1)
	if use != nil && !math.IsInf(best, 1) {
		left := 1.0
		for k, o := range counted {
			use[o.index] += numbers[k]
			left -= numbers[k] * o.share
		}
		if left > plan.RateTolerance && restOn >= 0 {
			use[restOn] += left * restPer
		}
	}
	return best
}

// steps bound at from below, up to the longest budget.
func (a *apart) steps(longest time.Duration) split.Steps {
	first, last := a.m.Fastest().Seconds(), longest.Seconds()
	var points []float64
	for k := range apartPoints + 1 {
		points = append(points, first*math.Pow(last/first, float64(k)/apartPoints))
	}
	for _, configs := range a.run {
		for n := 1; n <= apartCounts; n++ { // devices of its own that serve all
			least := math.Inf(1)
			for _, c := range configs {
				least = math.Min(least, a.m.Latency(&c, n))
			}
			if least <= last {
				points = append(points, least)
			}
		}
	}
	slices.Sort(points)
	var steps []split.Step
	for i, l := range points {
		until := last
		if i+1 < len(points) {
			until = points[i+1] - 0.5e-9
		}
		if until < l {
			continue
		}
		if cost := a.at(until, nil); !math.IsInf(cost, 1) {
			steps = append(steps, split.Step{Budget: l, Cost: cost})
		}
	}
	return split.NewSteps(steps)
}

// apartAt is atPrices with these stronger costs.
func (s *devices) apartAt(prices []float64) (least float64, use []float64) {
	use = make([]float64, len(s.kinds))
	for i, p := range s.problems {
		costs, modules := make([]split.Cost, len(p.Modules)), make([]*apart, len(p.Modules))
		around := p.DAG.Around(p.Fastest())
		for k, m := range p.Modules {
			costs[k] = split.Steps(nil)
			if m.Rate == 0 {
				continue
			}
			a := &apart{m: m, prices: prices, kind: s.kindOf, waits: s.waitsOf(i, k), run: make([][]plan.Config, len(s.kinds))}
			for _, c := range m.Configs {
				a.run[s.kindOf(&c)] = append(a.run[s.kindOf(&c)], c)
			}
			modules[k], costs[k] = a, a.steps(p.Pipeline.SLO-around[k])
		}
		cost, budgets := split.Least(p, costs, mostBoundBoxes)
		least += cost
		for k, a := range modules {
			if a != nil && budgets != nil {
				a.at(budgets[k].Seconds(), use)
			}
		}
	}
	return least, use
}

// waitsOf are, by kind, the shortest batches that modules other than one may have.
func (s *devices) waitsOf(pipeline, module int) []time.Duration {
	waits := make([]time.Duration, len(s.kinds))
	for h := range s.kinds {
		waits[h] = time.Duration(1) << 60 // nobody to share with
		for i, p := range s.problems {
			for k, m := range p.Modules {
				if d := m.FastestOn(s.kinds[h].Hardware); d > 0 && m.Rate > 0 && (i != pipeline || k != module) {
					waits[h] = min(waits[h], d)
				}
			}
		}
	}
	return waits
}
