package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// DefaultTimeLimit bounds every search for a plan, so that a printed plan is searched for
// as long as one that runs.
const DefaultTimeLimit = 30 * time.Second

// Limits end a search early: the best plan found by then is returned, with its
// bound. The zero value ends none, and has no policies but those of this project.
type Limits struct {
	Clock     func() time.Duration // reads a monotonic clock; nil measures no time
	TimeLimit time.Duration        // of each search, by Clock; 0 for none
	Stop      func() bool          // polled: true ends a search; nil for never

	// Policies are what a program brings to plan and to serve by.
	Policies Policies
}

// ended is Stop and TimeLimit of a search that begins now.
func (l Limits) ended() func() bool {
	begin := time.Duration(0)
	if l.Clock != nil {
		begin = l.Clock()
	}
	return func() bool {
		return l.Stop != nil && l.Stop() || l.TimeLimit > 0 && l.Clock != nil && l.Clock()-begin >= l.TimeLimit
	}
}

// Solve plans services, together where they may share devices, and answers in
// their order. A service that cannot be planned has a plan with a reason; it does not stop
// the others.
func Solve(specs []Spec, fleet Fleet, limits Limits) []Plan {
	plans, done := make([]Plan, len(specs)), make([]bool, len(specs))
	for i, s := range specs {
		if done[i] {
			continue
		}
		index := []int{i}
		for k := i + 1; k < len(specs); k++ {
			if together(s, specs[k]) {
				index, done[k] = append(index, k), true
			}
		}
		// In order of name, so that the order of declaration changes no plan.
		slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(specs[a].Name(), specs[b].Name()) })
		group := make([]Spec, len(index))
		for k, at := range index {
			group[k] = specs[at]
		}
		for k, p := range s.service().solve(group, fleet, limits) {
			plans[index[k]] = p
		}
	}
	return plans
}

// together reports whether two services are planned together. What others are planned with
// does not change their plans.
func together(a, b Spec) bool { return a.service().together(b) }

// Beside are the other services of a list that Solve plans together with one of
// them, if any. Solve of these and the one, in any order, gives it the plan that
// Solve of the whole list does.
func Beside(specs []Spec, one int) []Spec {
	var all []Spec
	for i, s := range specs {
		if i != one && together(specs[one], s) {
			all = append(all, s)
		}
	}
	return all
}

// solveGroup plans pipelines together, as if devices were unlimited, since the joint search
// has no limits, beside what others hold. Where existing devices do not suffice, it plans
// each for itself within them; whether they fit beside each other is left to placement.
func solveGroup(specs []Spec, fleet Fleet, o sizing.Options) []plan.Plan {
	free, limited := make([]plan.Problem, len(specs)), make([]plan.Problem, len(specs))
	var held map[string]int
	for i, s := range specs {
		declared := plan.Transferred(*s.Pipeline, fleet.Transfer)
		hardware := fleet.available(s.Hardware)
		limited[i] = plan.Problem{Pipeline: declared, Hardware: hardware}
		free[i] = plan.Problem{Pipeline: declared, Hardware: unlimited(hardware)}
		if together(s, s) {
			free[i].Held, held = fleet.shared(hardware), fleet.occupied()
		}
	}
	plans := sizing.SolveAll(free, o)
	if !enough(limited, plans, held) {
		plans = sizing.SolveAll(limited, o)
	}
	if busy := leaveOutSpread(limited, plans); len(busy) > 0 {
		plans = sizing.SolveAll(limited, o)
		for _, i := range busy {
			plans[i].SpreadLeftOut = plans[i].Status != plan.Infeasible
		}
	}
	for i := range plans {
		if len(limited[i].Hardware) == 0 && len(specs[i].Hardware) > 0 {
			plans[i].Reason = noDevice
			continue
		}
		plans[i].Count(fleet.Transfer)
	}
	return plans
}

// leaveOutSpread changes the problems for which no plan was found that counts the spread of their
// profiles, to durations as stated: they were measured on a machine that was too busy for the
// objective or the devices, and it may not always be. It returns their indices.
func leaveOutSpread(problems []plan.Problem, plans []plan.Plan) (busy []int) {
	for i := range problems {
		if p := &problems[i].Pipeline; plans[i].Status == plan.Infeasible && p.Quantile() > 0 {
			kept := pipelines.DefaultHeadroom
			p.Headroom = &kept
			busy = append(busy, i)
		}
	}
	return busy
}

// noDevice is why nothing can be planned where a fleet has nothing of use.
const noDevice = "no host has a device of the hardware that is declared; start a worker on a host that has one"

func unlimited(hardware []pipelines.Hardware) []pipelines.Hardware {
	all := slices.Clone(hardware)
	for i := range all {
		all[i].Count = 0
	}
	return all
}

// enough reports whether the plans together use no more devices of each kind than
// there are, less those that others hold.
func enough(problems []plan.Problem, plans []plan.Plan, held map[string]int) bool {
	used := devicesUsed(problems, plans)
	for _, p := range problems {
		for _, h := range p.Hardware {
			if h.Count > 0 && used[h.Name]+float64(held[h.Name]) > float64(h.Count)*(1+countTolerance) {
				return false
			}
		}
	}
	return true
}

// countTolerance is how much more than a number of devices counts as rounding.
const countTolerance = 1e-9

// devicesUsed counts the devices of plans that were made together, by hardware;
// one that several share counts once, and one that others hold does not count.
func devicesUsed(problems []plan.Problem, plans []plan.Plan) map[string]float64 {
	used := map[string]float64{}
	own := func(pipeline string) bool {
		return slices.ContainsFunc(problems, func(p plan.Problem) bool { return p.Pipeline.Name == pipeline })
	}
	type group struct {
		pipeline, module string
		index            int
	}
	shared := map[group]bool{} // that run on a shared device
	for _, p := range plans {
		for _, d := range p.Devices {
			first := d.Tasks[0] // of others, where they hold the device
			if own(first.Pipeline) && !shared[group{first.Pipeline, first.Module, first.Group}] {
				used[d.Hardware]++
			}
			for _, t := range d.Tasks {
				shared[group{t.Pipeline, t.Module, t.Group}] = true
			}
		}
	}
	for _, p := range plans {
		for _, m := range p.Modules {
			for i, g := range m.Groups {
				if !g.Rides && !shared[group{p.Pipeline, m.Name, i}] {
					used[g.Hardware] += g.Machines
				}
			}
		}
	}
	return used
}

// Options are those of package plan for a pipeline that is planned so.
func Options(p pipelines.Planning, l Limits) plan.Options {
	return plan.Options{
		Policy: p.Policy, CostModel: p.CostModel, Without: p.Without, Split: p.Split, Reading: p.Reading, Concurrency: p.Concurrency,
		TimeLimit: l.TimeLimit, Stop: l.Stop, Clock: l.Clock, Policies: l.Policies.Plan,
	}
}
