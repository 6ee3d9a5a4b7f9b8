package exact

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Co-located steps. A processing step (a module with a function) is code of the
// worker itself, which the operating system interrupts as it likes, and often
// takes microseconds. Nobody buys a device for that. Under cost models whole and
// shared such steps run on a device that an executor of the pipeline has anyway:
// they cost nothing, do not wait for the device's turn, and get a fixed budget.
// What they take from the batches beside them is bounded: all co-located steps of
// a pipeline together use at most mostUse of one device, far less than the
// headroom that measured profiles are planned with.
const (
	mostUse       = 0.02             // of a device's time, all co-located steps of a pipeline
	leastBudget   = time.Millisecond // what the system may take to let a step run
	leastOfSLO    = 200              // but no more than this part of the objective
	timesDuration = 2                // of a step, for the request before it
)

// colocated is what is fixed for a step that runs beside an executor.
type colocated struct {
	rate   float64 // requests per second; the search sees none of them
	budget time.Duration
}

// colocate chooses the steps: of all whose profile covers every kind of hardware
// that other modules may run on, those that use least. It takes their rates from
// the search, and the time that the longest path needs for them from the
// objective.
func (p *problem) colocate() {
	var steps []int
	for i, m := range p.Modules {
		if m.Rate > 0 && p.Pipeline.Module(m.Name).Function != "" && p.covers(m) && ridesWithin(m) < p.Pipeline.SLO {
			steps = append(steps, i)
		}
	}
	slices.SortStableFunc(steps, func(a, b int) int { return cmp.Compare(use(p.Modules[a]), use(p.Modules[b])) })
	used, n := 0.0, 0
	for ; n < len(steps); n++ {
		if used += use(p.Modules[steps[n]]); used > mostUse {
			break
		}
	}
	steps = steps[:n]
	if n == 0 || !p.othersRun(steps) {
		return
	}
	budgets := make([]time.Duration, len(p.Modules))
	for _, i := range steps {
		budgets[i] = max(ridesWithin(p.Modules[i]), min(leastBudget, p.Pipeline.SLO/leastOfSLO))
	}
	pipe := *p.Pipeline
	if pipe.SLO -= p.DAG.Longest(budgets); pipe.SLO <= 0 {
		return
	}
	left := *p.Prepared
	left.Pipeline, left.Modules = &pipe, slices.Clone(left.Modules)
	for _, i := range steps {
		m := *left.Modules[i]
		p.steps[i] = colocated{m.Rate, budgets[i]}
		m.Rate, left.Modules[i] = 0, &m
	}
	p.Prepared = &left
}

// othersRun reports whether a module is left that has a device.
func (p *problem) othersRun(steps []int) bool {
	for i, m := range p.Modules {
		if m.Rate > 0 && !slices.Contains(steps, i) {
			return true
		}
	}
	return false
}

// covers reports whether a step can run wherever another module may.
func (p *problem) covers(step *plan.ModuleProblem) bool {
	for _, m := range p.Modules {
		if p.Pipeline.Module(m.Name).Function != "" {
			continue
		}
		for _, c := range m.Configs {
			if !slices.ContainsFunc(step.Configs, func(own plan.Config) bool { return own.Hardware == c.Hardware }) {
				return false
			}
		}
	}
	return true
}

// slowest is the slowest way to run the smallest batch.
func slowest(m *plan.ModuleProblem) plan.Config {
	return slices.MaxFunc(m.Configs, func(a, b plan.Config) int {
		return cmp.Or(cmp.Compare(b.Batch, a.Batch), cmp.Compare(a.Duration, b.Duration))
	})
}

// ridesWithin is the least budget of a step on any kind of hardware: time for a request, and the one before it.
func ridesWithin(m *plan.ModuleProblem) time.Duration {
	least := map[string]time.Duration{}
	for _, c := range m.Configs {
		if within, any := least[c.Hardware]; !any || rides(m, c) < within {
			least[c.Hardware] = rides(m, c)
		}
	}
	most := timesDuration * slowest(m).Duration
	for _, within := range least {
		most = max(most, within)
	}
	return most
}

// rides is how long the items of a request may take that runs by a configuration beside an executor, as it is
// proven (plan.Module): also where they come together.
func rides(m *plan.ModuleProblem, c plan.Config) time.Duration {
	within := timesDuration * c.Duration
	if m.Bursts.Items > 0 {
		within = max(within, plan.ToDuration(min(plan.Riding(m.Bursts, c.Batch, c.Duration), time.Hour.Seconds())))
	}
	return within
}

// use is the share of a device that a step takes, one batch for each request.
func use(m *plan.ModuleProblem) float64 { return m.Rate * slowest(m).Duration.Seconds() }

// write makes the plan, co-located steps included: each on a kind of hardware
// that the plan uses, of a neighbour's where it can.
func (p *problem) write(sets []plan.Schedule, budgets []time.Duration) plan.Plan {
	if p.Prepared == p.declared {
		return p.Write(sets, budgets)
	}
	sets, budgets = slices.Clone(sets), slices.Clone(budgets)
	for i, step := range p.steps {
		if step.rate == 0 {
			continue
		}
		m := p.declared.Modules[i]
		c := step.on(m, p.neighbour(sets, i))
		c.Weight, c.Price = 0, 0
		t := plan.Allocation{Config: c, Machines: use(m), Rate: step.rate, Collect: step.rate, Period: c.Duration, Worst: 2 * c.Duration, Rides: true}
		sets[i] = plan.Schedule{Allocations: []plan.Allocation{t}, Worst: t.Worst}
		budgets[i] = step.budget
	}
	return p.declared.Write(sets, budgets)
}

// offset is from the arrival of a request to its virtual arrival at a module, steps included.
func (p *problem) offset(budgets []time.Duration, module int) time.Duration {
	all := slices.Clone(budgets)
	for i, step := range p.steps {
		if step.rate > 0 {
			all[i] = step.budget
		}
	}
	return p.DAG.Before(all)[module]
}

// on is how a step runs on a kind of hardware: in the largest batches by which it keeps its budget, since
// requests may come in bursts.
func (s colocated) on(m *plan.ModuleProblem, hardware string) plan.Config {
	best := slowest(m)
	for _, c := range m.Configs {
		if c.Hardware == hardware && c.Concurrency == 1 && rides(m, c) <= s.budget && (best.Hardware != hardware || c.Batch > best.Batch) {
			best = c
		}
	}
	return best
}

// neighbour is the hardware of a module that the plan runs: one next to module i,
// or any.
func (p *problem) neighbour(sets []plan.Schedule, i int) string {
	near := slices.Concat(p.DAG.Up[i], p.DAG.Down[i])
	for k := range sets {
		near = append(near, k)
	}
	for _, k := range near {
		if p.steps[k].rate == 0 && len(sets[k].Allocations) > 0 {
			return sets[k].Allocations[0].Hardware
		}
	}
	return ""
}
