package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Lower bound of cost model shared, by cutting planes over whole devices.
//
// Let a plan have n_k devices of every kind k. A module whose budget is L uses at
// least d/P of a device for its whole stream, P = min(b/T, max(g, L - d)) for the gap g between two requests (plan.ModuleProblem.Gap), or the sum of such parts
// where several configurations serve parts of it (see whole_module.go). Give the devices
// prices l_k of any kind, not their own. Then all modules together cost at least
//
//	Z(l) = min over budgets of sum over i of min over (k, b, d) of l_k·d/P_i
//
// and they fit into the devices, so that sum of l_k·n_k >= Z(l): a cut, which every
// sound plan obeys. The least cost of whole numbers of devices that obey a list of
// cuts is therefore a lower bound. Cuts are made where they are needed: the numbers
// that are cheapest so far are refuted by prices under which they do not suffice,
// and these are looked for by raising the price of what is used too much; until the
// numbers cost as much as the best plan, or nothing refutes them.
//
// A single device is refuted by the batches themselves, too: a batch on a device
// with those of all other modules is due no sooner than after one of any other and
// its own, since one that is due sooner runs before it and one that is due later may
// run already.

const (
	mostCuts       = 24
	mostBoundBoxes = 40   // of one split of an objective
	mostPrices     = 6    // that are tried against one choice of numbers
	mostCounted    = 400  // devices; with more of them little is gained
	mostChoices    = 2e5  // numbers of devices that one search looks at
	refutation1    = 1e-9 // relative, by which numbers must be too few
	leastOfPrice   = 1e-3 // of a kind's own price

	// leastFluid is the least that shares of devices may cost: below, numbers lose their
	// digits (1e-308), and a module that fits would seem not to.
	leastFluid = 1e-200
)

// bounding is the search for one bound.
type bounding struct {
	s    *devices
	cuts []deviceCut
	not  [][]int // numbers that are not enough by what batches wait for each other
}

// deviceCut means that devices at these prices cost at least so much.
type deviceCut struct {
	prices []float64 // by kind
	least  float64
}

// boundDevice is a kind of device that may be bought.
type boundDevice struct {
	Hardware string
	Weight   float64 // what one costs, in decisions
}

// devices is what is to be bounded.
type devices struct {
	problems []*plan.Prepared
	kinds    []boundDevice
	nodes    int // times modules, that hosting has looked at
}

// wholeBound is a bound and what was found on the way.
type wholeBound struct {
	Least     float64             // cost, in weights
	TwoGroups bool                // it holds only for plans with at most two groups a module
	Splits    [][][]time.Duration // of the objectives, by pipeline and module: some that good plans may have
}

// boundWhole is the least cost of numbers of devices that nothing refutes, or some cost
// that is at least enough. fluid is a bound that counts shares of devices: what the
// modules cost at the prices of the devices themselves. Kinds come cheapest first. own
// is what modules cost at the least on devices of their own, in plans with at most two
// groups a module.
func boundWhole(problems []*plan.Prepared, kinds []boundDevice, own [][]split.Steps, fluid, enough float64) (out wholeBound) {
	out.Least = fluid
	if fluid < leastFluid || len(kinds) == 0 || kinds[0].Weight <= 0 || fluid > mostCounted*kinds[0].Weight {
		return out
	}
	s := &devices{problems: problems, kinds: kinds}
	prices := make([]float64, len(s.kinds))
	for k, h := range s.kinds {
		prices[k] = h.Weight
	}
	b := &bounding{s: s, cuts: append(s.burstCuts(), deviceCut{prices, fluid})}
	reached := func() bool { return out.Least >= enough*(1-plan.OptimalityGap/2) }
	for range mostCuts {
		n, cost := b.cheapest()
		if n == nil {
			return out
		}
		if out.Least = math.Max(out.Least, cost); reached() || s.problems[0].Options.Stopped() {
			return out
		}
		if !b.refute(n) {
			break
		}
	}
	_, cost := b.cheapest()
	if out.Least = math.Max(out.Least, cost); reached() {
		return out
	}
	least, ok := s.residents(own, enough)
	if !ok && out.Least < enough*(1-leftToRaise) {
		least, out.Splits = boundColumns(problems, kinds, out.Least, enough)
	}
	b.cuts = append(b.cuts, deviceCut{prices, least})
	if _, cost := b.cheapest(); cost > out.Least {
		out.Least, out.TwoGroups = cost, ok
	}
	return out
}

// cheapest are the numbers of devices of least cost that obey all cuts; nil when
// there are too many to look at.
func (b *bounding) cheapest() (best []int, cost float64) {
	kinds := b.s.kinds
	cost = math.Inf(1)
	n, visits := make([]int, len(kinds)), 0.0
	left := make([]float64, len(b.cuts))
	for i := range left {
		left[i] = b.cuts[i].least * (1 - plan.OptimalityGap/10)
	}
	var visit func(k int, sum float64)
	visit = func(k int, sum float64) {
		if visits++; visits > mostChoices || sum >= cost*(1-plan.CostTolerance) {
			return
		}
		n[k] = 0
		if k == len(kinds)-1 {
			for i, c := range b.cuts { // as many as the cuts require
				n[k] = max(n[k], int(math.Ceil(left[i]/c.prices[k])))
			}
			for b.refuted(n) {
				n[k]++
			}
			if more := sum + float64(n[k])*kinds[k].Weight; more < cost*(1-plan.CostTolerance) {
				best, cost = slices.Clone(n), more
			}
			n[k] = 0
			return
		}
		for ; sum+float64(n[k])*kinds[k].Weight < cost && visits <= mostChoices; n[k]++ {
			b.pay(left, k, n[k])
			visit(k+1, sum+float64(n[k])*kinds[k].Weight)
			b.pay(left, k, -n[k])
		}
		n[k] = 0
	}
	visit(0, 0)
	if visits > mostChoices {
		return nil, 0
	}
	return best, cost
}

func (b *bounding) pay(left []float64, k, n int) {
	for i := range left {
		left[i] -= float64(n) * b.cuts[i].prices[k]
	}
}

// refuted reports that the numbers are among those, or fewer.
func (b *bounding) refuted(n []int) bool {
	return slices.ContainsFunc(b.not, func(not []int) bool {
		for k := range n {
			if n[k] > not[k] {
				return false
			}
		}
		return true
	})
}

// refute looks for a reason why the numbers are too few, and notes it.
func (b *bounding) refute(n []int) bool {
	sum, only := 0, 0
	for k := range n {
		if sum += n[k]; n[k] > 0 {
			only = k
		}
	}
	if sum == 1 && b.s.single(only) > 1+refutation1 {
		b.not = append(b.not, slices.Clone(n))
		return true
	}
	if len(n) > 1 && b.cut(n) {
		return true
	}
	if b.s.tooFew(n) {
		b.not = append(b.not, slices.Clone(n))
		return true
	}
	return false
}

// cut looks for prices under which the modules cost more than the numbers of devices.
func (b *bounding) cut(n []int) bool {
	prices := make([]float64, len(n))
	for k := range prices {
		prices[k] = b.s.kinds[k].Weight
	}
	for t := range mostPrices {
		least, use := b.s.atPrices(prices)
		paid := 0.0
		for k := range n {
			paid += prices[k] * float64(n[k])
		}
		if least > paid*(1+refutation1) {
			b.cuts = append(b.cuts, deviceCut{slices.Clone(prices), least})
			return true
		}
		step := 0.8 / math.Sqrt(float64(t+1))
		for k := range prices {
			by := (use[k] - float64(n[k])) / math.Max(1, math.Max(use[k], float64(n[k])))
			prices[k] = math.Max(prices[k]*math.Exp(step*by), leastOfPrice*b.s.kinds[k].Weight)
		}
	}
	return false
}

// atPrices is the least that all modules cost when devices have these prices, as a
// bound, and how many devices of each kind they use then.
func (s *devices) atPrices(prices []float64) (least float64, use []float64) {
	use = make([]float64, len(s.kinds))
	for _, p := range s.problems {
		bound, budgets := relaxed(p, func(i int, c *plan.Config) split.Curve {
			return split.NewCurve(p.Modules[i], c, prices[s.kindOf(c)], c.Duration.Seconds())
		})
		least += bound
		for i, m := range p.Modules {
			if m.Rate == 0 || budgets == nil {
				continue
			}
			kind, cost, used := 0, math.Inf(1), 0.0
			for k := range m.Configs {
				c := &m.Configs[k]
				period := m.Period(c, (budgets[i] - c.Duration).Seconds())
				if at := prices[s.kindOf(c)] * c.Interval() / period; period > 0 && at < cost {
					kind, cost, used = s.kindOf(c), at, c.Interval()/period
				}
			}
			use[kind] += used
		}
	}
	return least, use
}

// burstCuts are what devices must do by the deadline of the last of some bursts, whatever runs
// beside it (demand.Bursts.Cannot).
func (s *devices) burstCuts() (cuts []deviceCut) {
	const bursts = 4
	for _, p := range s.problems {
		around := p.DAG.Around(p.Fastest())
		for i, m := range p.Modules {
			if m.Bursts.Items == 0 || m.Rate == 0 {
				continue
			}
			latency := (p.Pipeline.SLO - around[i]).Seconds()
			for j := range bursts {
				after := float64(j) * m.Bursts.Next()
				items := make([]float64, len(s.kinds))
				for _, c := range m.Configs {
					most := float64(c.Batch*c.Concurrency) * wholeTimes(latency+after, c.Duration.Seconds())
					items[s.kindOf(&c)] = math.Max(items[s.kindOf(&c)], most)
				}
				cuts = append(cuts, deviceCut{items, float64(m.Bursts.Came(after))})
			}
		}
	}
	return cuts
}

// wholeTimes is how often one time fits into another.
func wholeTimes(in, one float64) float64 { return math.Floor(in / one * (1 + plan.RateTolerance)) }

// waits reports whether a batch of one pipeline may have to wait for one of another. Where it is
// known when those of one come, they need not wait for each other.
func (s *devices) waits(pipeline, other int) bool {
	return pipeline != other || !slices.ContainsFunc(s.problems[pipeline].Modules, func(m *plan.ModuleProblem) bool {
		return m.Bursts.Items > 0 || len(m.Branch) > 0
	})
}

func (s *devices) kindOf(c *plan.Config) int {
	return slices.IndexFunc(s.kinds, func(h boundDevice) bool { return h.Hardware == c.Hardware })
}

// relaxed is the least sum of the curves that configurations have, as a bound, and
// budgets that nearly reach it.
func relaxed(p *plan.Prepared, curve func(module int, c *plan.Config) split.Curve) (float64, []time.Duration) {
	costs := make([]split.Cost, len(p.Modules))
	for i, m := range p.Modules {
		var list split.Curves
		if m.Rate > 0 {
			for k := range m.Configs {
				if c := curve(i, &m.Configs[k]); c.Rise >= 0 {
					list = append(list, c)
				}
			}
			if len(list) == 0 {
				return math.Inf(1), nil
			}
		}
		costs[i] = list.Lower()
	}
	return split.Least(p, costs, mostBoundBoxes)
}

// single is how much of one device of a kind all modules use at the least, when it
// is the only one; +Inf when they cannot run on it.
func (s *devices) single(kind int) float64 {
	hardware := s.kinds[kind].Hardware
	var list []time.Duration
	for _, p := range s.problems {
		for _, m := range p.Modules {
			if m.Rate > 0 {
				list = append(list, m.FastestOn(hardware))
			}
		}
	}
	sum, at := 0.0, 0
	for _, p := range s.problems {
		others := make([]time.Duration, len(p.Modules)) // the longest batch of another module
		for i, m := range p.Modules {
			if m.Rate == 0 {
				continue
			}
			for k, d := range list {
				if k != at {
					others[i] = max(others[i], d)
				}
			}
			at++
		}
		use, _ := relaxed(p, func(i int, c *plan.Config) split.Curve {
			if c.Hardware != hardware {
				return split.Curve{Rise: -1}
			}
			takes := c.Duration
			if c.Concurrency == 1 {
				takes += others[i]
			}
			return split.NewCurve(p.Modules[i], c, 1, takes.Seconds())
		})
		sum += use
	}
	return sum
}
