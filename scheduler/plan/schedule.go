package plan

import (
	"math"
	"slices"
	"time"
)

// Allocation is what policies give to a group of machines that run one
// configuration: either a whole number of full machines or one that is partly
// used.
type Allocation struct {
	Config
	Machines float64
	Rate     float64 // requests per second, dummy requests included
	Collect  float64 // w of Theorem 1, the rate at which batches are collected
	Worst    time.Duration
	Period   time.Duration // between two batches; 0 when they are full
	Window   time.Duration // on a shared device, that requests wait for their batch at the most
	Deadline time.Duration // on a shared device, from closing a batch to its end; 0 on its own
	Charge   float64       // of the price of a shared device that is charged, 0 to 1; of machines for bursts that are no whole devices
	Items    int           // of each burst, that the group takes; see Group
	Rides    bool          // beside an executor, see Group
}

// Schedule is the configuration set of one module.
type Schedule struct {
	Allocations []Allocation
	Dummies     float64 // requests per second
	Worst       time.Duration
	Weight      float64 // what decisions compare: cost, or machines when all hardware is free
}

// Add puts one more allocation into the schedule.
func (s *Schedule) Add(a Allocation) {
	s.Allocations = append(s.Allocations, a)
	s.Worst = max(s.Worst, a.Worst)
	s.Weight += a.Weight * a.Charged()
}

// Charged is the number of machines that are paid for.
func (a *Allocation) Charged() float64 {
	switch {
	case a.Rides:
		return 0
	case a.Deadline > 0, a.Items > 0 && !a.Whole:
		return a.Charge
	case a.Whole:
		return wholeDevices(a.Machines)
	}
	return a.Machines
}

// wholeDevices rounds up, but for rounding noise.
func wholeDevices(machines float64) float64 { return math.Ceil(machines - RateTolerance*machines) }

// Cheaper compares what decisions compare, beyond rounding.
func Cheaper(a, b float64) bool { return a+CostTolerance*math.Abs(a) < b }

// Worsts are the worst cases of schedules.
func Worsts(sets []Schedule) []time.Duration {
	w := make([]time.Duration, len(sets))
	for i := range sets {
		w[i] = sets[i].Worst
	}
	return w
}

// Write makes the plan of schedules, in the order of the DAG.
func (p *Prepared) Write(sets []Schedule, budgets []time.Duration) Plan {
	out := Plan{
		Pipeline: p.Pipeline.Name, Policy: p.Options.policy(), CostModel: p.Options.costModel(),
		Status: Feasible, SLO: p.Pipeline.SLO, Latency: p.DAG.Longest(Worsts(sets)),
	}
	for _, i := range p.inDeclaredOrder() {
		m := p.Modules[i].result(sets[i], budgets[i])
		out.Cost += m.Cost
		out.Modules = append(out.Modules, m)
	}
	p.prove(&out)
	return out
}

func (m *ModuleProblem) result(set Schedule, budget time.Duration) Module {
	out := Module{Name: m.Name, Rate: m.Rate, DummyRate: set.Dummies, Budget: budget, WorstCase: set.Worst}
	for _, a := range set.Allocations {
		out.Cost += a.Price * a.Charged()
		out.Groups = append(out.Groups, a.group())
	}
	// Dummy requests are given to the groups that are worst, last first: they
	// were added to fill these.
	left := set.Dummies
	for i := len(out.Groups) - 1; i >= 0 && left > 0; i-- {
		g := &out.Groups[i]
		g.DummyRate = math.Min(left, g.Rate)
		g.Rate -= g.DummyRate
		left -= g.DummyRate
	}
	return out
}

func (a *Allocation) group() Group {
	g := Group{
		Hardware: a.Hardware, Batch: a.Batch, Concurrency: a.Concurrency, Duration: a.Duration,
		Machines: a.Charged(), Rate: a.Rate, Period: a.Period, Window: a.Worst - a.Duration,
	}
	if a.Rides {
		g.Machines, g.Rides = a.Machines, true
	}
	if a.Deadline > 0 || a.Items > 0 {
		g.Machines, g.Deadline, g.Window, g.Items = a.Machines, a.Deadline, a.Window, a.Items
	}
	if g.Period == 0 {
		g.Period = Collection(a.Batch, a.Rate)
	}
	return g
}

// OptimalityGap is the relative gap between a plan's cost and the proven lower
// bound up to which the plan is called optimal.
const OptimalityGap = 1e-6

// Certify writes a lower bound, in weights, into a plan, and the status that
// follows. restriction names the plans for which it holds; empty for all.
func (p *Prepared) Certify(out *Plan, bound float64, restriction string) {
	if p.free() {
		bound = 0
	}
	out.LowerBound = math.Max(0, math.Min(bound, out.Cost))
	out.Restriction = restriction
	if out.Sound && out.Cost-out.LowerBound <= OptimalityGap*out.Cost {
		out.Status = Optimal
	}
}

// DistributeSlack gives what paths leave of the objective to groups on devices of their own that
// give each request a batch of its own, up to the time between two requests; true where
// it did. The promise needs no window there, but where batches take longer than their
// profile, or requests come closer together, one keeps it all the same.
func (p *Prepared) DistributeSlack(sets []Schedule) (lent bool) {
	var list []int
	for i := range sets {
		if a := sets[i].OwnGroup(); a != nil && p.Modules[i].Bursts.Items == 0 && a.Worst-a.Duration < p.Modules[i].WholeGap() {
			list = append(list, i)
		}
	}
	for n, i := range list {
		left := p.Pipeline.SLO - p.DAG.LongestThrough(Worsts(sets), i)
		set := &sets[i]
		more := min(left/time.Duration(len(list)-n), p.Modules[i].WholeGap()-(set.Worst-set.Allocations[0].Duration))
		if more <= 0 {
			continue
		}
		set.Allocations = slices.Clone(set.Allocations)
		set.Worst += more
		set.Allocations[0].Worst = set.Worst
		lent = true
	}
	return lent
}

// OwnGroup is the group that serves a module on devices of its own; nil where there are
// several, or one that shares a device.
func (s *Schedule) OwnGroup() *Allocation {
	if len(s.Allocations) != 1 {
		return nil
	}
	if a := &s.Allocations[0]; a.Deadline == 0 && !a.Rides {
		return a
	}
	return nil
}
