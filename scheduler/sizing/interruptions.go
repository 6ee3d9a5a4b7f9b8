package sizing

import (
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Devices of the spot market are taken back. Each is there for a time, missed until
// another serves in its place, and there again, whatever becomes of the others: in
// the long run it is away for the share q = Hardware.Away of the time. A group that
// needs m machines and has s more has K of them away, K ~ Bin(m+s, q), and then no
// machine for (K-s)/m of its requests, where K > s. What all groups of a plan miss,
// each in proportion to its part of its module's requests, adds up to no less than
// what the pipeline misses. A plan bears its interruptions where that is no more than
// the attainment leaves: 1 - attainment for even arrivals, and a part of that for
// random ones, of which some are late anyway.
//
// Plans that bear them as they are stay as they are. Otherwise machines are added to
// plans of whole devices, each for one module, where one can stand in for another:
// any Machines - Spare of a group keep its windows. Which such plan is cheapest with
// what it must have to spare is found by planning with devices that are taken back
// at several prices, and without them. Under cost model proportional a plan pays for
// 1/(1-q) of what it needs, which is what many devices come to.

// away is the share of time in which devices are missed, by hardware that is taken
// back. The requests that came within one objective of an interruption count as
// missed, too.
type away map[string]float64

func interrupted(p *plan.Problem) away {
	all := away{}
	for _, h := range p.Hardware {
		if q := h.Away(p.Pipeline.SLO); q > 0 {
			all[h.Name] = q
		}
	}
	return all
}

// of is the most that a device of the plan is away.
func (a away) of(p *plan.Plan) float64 {
	most := 0.0
	for _, m := range p.Modules {
		for _, g := range m.Groups {
			most = math.Max(most, a[g.Hardware])
		}
	}
	return most
}

// mayMiss is the share of requests that may miss the objective.
func mayMiss(p *pipelines.Pipeline) float64 {
	switch {
	case p.Attainment < 0:
		return 1
	case p.Attainment == 0:
		return 1 - pipelines.DefaultAttainment
	}
	return 1 - p.Attainment
}

// withstand is base, a plan that knows nothing of interruptions, where it bears them,
// and otherwise the cheapest plan found that does.
func withstand(p plan.Problem, o plan.Options, base plan.Plan) plan.Plan {
	a := interrupted(&p)
	if base.Status == plan.Infeasible || a.of(&base) == 0 {
		return base
	}
	if base.CostModel == plan.CostProportional {
		return a.inProportion(p, o)
	}
	if allowed := a.allowed(&p, &base); a.bear(&p, &base, allowed, 0) {
		return base
	}
	start, surcharges := watch(o), [...]float64{1, 1.5, 2.5} // times the price of a device that is taken back
	best := solve(lasting(p, a), o)
	for _, portion := range shares(&p.Pipeline) {
		for _, surcharge := range surcharges {
			allowed := portion * mayMiss(&p.Pipeline)
			c := a.attempt(p, o, surcharge, allowed)
			if c.Status != plan.Infeasible && (best.Status == plan.Infeasible || c.Cost < best.Cost) {
				best = c
			}
			if c.Status != plan.Infeasible && (c.Interruptions == nil || c.Interruptions.Spare == 0) {
				break // dearer devices make no better plan
			}
		}
	}
	best.CostModel, best.SolveTime = base.CostModel, base.SolveTime+watch(o)-start
	if best.Status == plan.Infeasible {
		best.Reason = fmt.Sprintf("devices that are taken back would leave %s of requests without one, and no plan was found that leaves less than %s; rent some on demand, or lower the attainment",
			quantity.Percent(base.Interruptions.Missing), quantity.Percent(base.Interruptions.Allowed))
		return best
	}
	best.Status, best.LowerBound, best.Restriction, best.HeadroomCost = plan.Feasible, base.LowerBound, base.Restriction, base.HeadroomCost
	if best.LowerBound > 0 && best.Restriction == "" {
		best.Restriction = "devices that stay"
	}
	return best
}

// allowed is what of the requests interruptions may take from a plan that does not
// know of them.
func (a away) allowed(p *plan.Problem, base *plan.Plan) float64 {
	if base.Expected != nil && p.Pipeline.Target() > 0 {
		return math.Max(0, base.Expected.Low-p.Pipeline.Target())
	}
	return mayMiss(&p.Pipeline)
}

// shares are the parts of what an attainment leaves that interruptions may take.
func shares(p *pipelines.Pipeline) []float64 {
	if random(p) && p.Target() > 0 {
		return []float64{0.1, 0.5}
	}
	return []float64{1}
}

// lasting is the problem on devices that stay.
func lasting(p plan.Problem, a away) plan.Problem {
	p.Hardware = slices.DeleteFunc(slices.Clone(p.Hardware), func(h pipelines.Hardware) bool { return a[h.Name] > 0 })
	return p
}

// inProportion plans where devices are bought in any part: each costs what it costs
// for the share of time that it is there.
func (a away) inProportion(p plan.Problem, o plan.Options) plan.Plan {
	q := p
	q.Hardware = slices.Clone(p.Hardware)
	for i := range q.Hardware {
		q.Hardware[i].Price /= 1 - a[q.Hardware[i].Name]
	}
	out := solve(q, o)
	if out.Status == plan.Infeasible {
		return out
	}
	i := plan.Interruptions{Allowed: mayMiss(&p.Pipeline)}
	for m := range out.Modules {
		for k := range out.Modules[m].Groups {
			g := &out.Modules[m].Groups[k]
			away := a[g.Hardware]
			g.Spare = g.Machines * away / (1 - away)
			g.Machines += g.Spare
			i.Spare += g.Spare
			for _, h := range p.Hardware {
				if h.Name == g.Hardware {
					i.SpareCost += g.Spare * h.Price
				}
			}
		}
	}
	out.Interruptions = &i
	return out
}

// bearAll says whether plans that know nothing of interruptions bear them all.
func bearAll(problems []plan.Problem, plans []plan.Plan) bool {
	all := true
	for i := range plans {
		p := &problems[i]
		a := interrupted(p)
		if plans[i].Status == plan.Infeasible || a.of(&plans[i]) == 0 {
			continue
		}
		proportional := plans[i].CostModel == plan.CostProportional
		all = !proportional && a.bear(p, &plans[i], a.allowed(p, &plans[i]), 0) && all
	}
	return all
}
