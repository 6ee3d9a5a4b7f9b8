// Package division divides the objective of a pipeline among its modules so that
// the devices of a cluster have least work.
//
// Any device of a cluster runs any module, so what a budget buys is a longer
// batch. A module that receives rate requests per second and is held back until
// its batch is complete needs l(b) + (b-1)/rate for a batch of b, the last request
// waiting for none; near the capacity of n devices that is staggered execution,
// l(b)·(1 + 1/n) (Symphony, section 4.2, equations 2 and 3, where n = rate·l(b)/b).
// The devices then work rate·l(b)/b seconds a second for it. The least sum over
// the modules under which every path keeps the objective is found by branch and
// bound (package plan/split), and what the paths leave of the objective lengthens
// all budgets alike.
//
// A device that runs something else is not interrupted. So every budget has time to
// wait for one, however short its module: as long as the longest module of the cluster
// takes for one request (Blocking), or half of what the fastest path leaves, shared
// equally, where that is less.
package division

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Division is how an objective is divided.
type Division struct {
	Budgets plan.Budgets
	Work    float64 // seconds of devices a second, at the batches that the budgets allow
	Bound   float64 // no division has less work

	// Least is the work that no dispatcher can do without: every batch as long as
	// the objective leaves time for beside the other modules of its longest path.
	Least float64
}

// Blocking is how long a device may be busy with one request of any of the pipelines.
func Blocking(hardware string, all ...pipelines.Pipeline) (longest time.Duration) {
	for i := range all {
		for k := range all[i].Modules {
			if table := flow.DurationTable(&all[i].Modules[k], hardware); len(table) > 0 {
				longest = max(longest, table[0])
			}
		}
	}
	return longest
}

// Of divides the objective of a pipeline at its declared rate, on one kind of
// hardware, whose devices may be busy so long (Blocking); a rate of 0 counts as one
// request per second. The error names a module without a profile there, or reports that the
// objective cannot be met.
func Of(p pipelines.Pipeline, hardware string, blocking time.Duration) (Division, error) {
	p.Modules = slices.Clone(p.Modules)
	if p.Rate == 0 {
		p.Rate = 1
	}
	for i, rates := 0, p.Rates(); i < len(p.Modules); i++ {
		m := &p.Modules[i]
		if flow.DurationTable(m, hardware) == nil {
			return Division{}, fmt.Errorf("module %q of pipeline %q has no profile on %q; every device of a cluster runs every module, so profile it there or leave the hardware out", m.Name, p.Name, hardware)
		}
		if rates[m.Name] == 0 {
			m.Rate = 1 // without requests it would be given no time at all
		}
	}
	by, err := policies.Of(plan.Options{})
	if err != nil {
		return Division{}, err
	}
	problem := plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: hardware, Price: 1}}}
	prepared, err := plan.Prepare(&problem, plan.Options{CostModel: plan.CostProportional}, by)
	if err != nil {
		return Division{}, err
	}
	return divide(&p, prepared.DAG, hardware, blocking, split.NewSearch(prepared))
}

// module is what is known of one module.
type module struct {
	name  string
	rate  float64
	table []time.Duration
	steps split.Steps
}

func divide(p *pipelines.Pipeline, dag *plan.DAG, hardware string, blocking time.Duration, search *split.Search) (Division, error) {
	rates := p.Rates()
	var all []module
	fastest := make([]time.Duration, len(dag.Names))
	search.Scale = 1
	for i, name := range dag.Names {
		m := module{name: name, rate: rates[name], table: flow.DurationTable(p.Module(name), hardware)}
		all, fastest[i] = append(all, m), slices.Min(m.table)
	}
	if need := dag.Longest(fastest); need > p.SLO {
		return Division{}, &plan.InfeasibleError{Pipeline: p.Name, SLO: p.SLO, Reason: fmt.Sprintf("SLO %v cannot be met on %s: the longest path takes %v even with batches of 1", p.SLO, hardware, need)}
	}
	wait := waits(dag, p.SLO, fastest, blocking)
	alone := slices.Clone(fastest)
	for i := range all {
		alone[i] += wait
		all[i].steps = split.NewSteps(all[i].batches(wait))
		search.Costs = append(search.Costs, all[i].steps)
	}
	search.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		cost, which := all[i].steps.At(budget.Seconds())
		if which < 0 {
			return 0, 0, false
		}
		return cost, min(budget, plan.WholeNanoseconds(all[i].steps[which].Budget)), true
	}
	d := Division{Budgets: plan.Budgets{}}
	search.Offer(alone)
	d.Bound = search.Run()
	if search.Found == nil {
		return d, &plan.InfeasibleError{Pipeline: p.Name, SLO: p.SLO, Reason: fmt.Sprintf("SLO %v cannot be divided among the modules on %s", p.SLO, hardware)}
	}
	d.Work = search.Best
	around := dag.Around(fastest)
	for i, b := range dag.Stretch(search.Found, p.SLO) {
		d.Budgets[all[i].name] = b
		d.Least += all[i].least(p.SLO - around[i])
	}
	return d, nil
}

// waits is what every budget has for waiting until a device is free.
func waits(dag *plan.DAG, slo time.Duration, fastest []time.Duration, blocking time.Duration) time.Duration {
	each := make([]time.Duration, len(fastest))
	for i := range each {
		each[i] = 1
	}
	return min(blocking, (slo-dag.Longest(fastest))/2/dag.Longest(each))
}

// batches are what each batch size needs and costs, with the time to wait for a device.
func (m *module) batches(wait time.Duration) []split.Step {
	var steps []split.Step
	for i, l := range m.table {
		b := float64(i + 1)
		need := wait + l + plan.WholeNanoseconds((b-1)/m.rate) // rounded down: what fits exactly must fit in rounded budgets, too
		steps = append(steps, split.Step{Budget: need.Seconds(), Cost: m.rate * l.Seconds() / b})
	}
	return steps
}

// least is the work of the longest batches that can be done in that time.
func (m *module) least(within time.Duration) float64 {
	least := math.Inf(1)
	for i, l := range m.table {
		if l <= within || i == 0 {
			least = min(least, m.rate*l.Seconds()/float64(i+1))
		}
	}
	return least
}
