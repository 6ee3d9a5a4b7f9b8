package sizing

import (
	"cmp"
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

// addSpares is base, a plan made without regard to interruptions, where it bears them, and
// otherwise the cheapest plan found that does.
func addSpares(p plan.Problem, o Options, base plan.Plan) plan.Plan {
	a := interrupted(&p)
	if base.Status == plan.Infeasible || a.of(&base) == 0 {
		return base
	}
	if base.CostModel == plan.CostProportional {
		return a.inProportion(p, o)
	}
	if allowed := a.allowed(&p, &base); a.keepsWithin(&p, &base, allowed, 0) {
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

// allowed is the share of requests that interruptions may cost a plan made without regard
// to them.
func (a away) allowed(p *plan.Problem, base *plan.Plan) float64 {
	if base.Expected != nil && p.Pipeline.Target() > 0 {
		return math.Max(0, base.Expected.Low-p.Pipeline.Target())
	}
	return mayMiss(&p.Pipeline)
}

// shares are the parts of what an attainment leaves that interruptions may take.
func shares(p *pipelines.Pipeline) []float64 {
	if simulated(p) && p.Target() > 0 {
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
func (a away) inProportion(p plan.Problem, o Options) plan.Plan {
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

// bearAll reports whether plans made without regard to interruptions bear them all.
func bearAll(problems []plan.Problem, plans []plan.Plan) bool {
	all := true
	for i := range plans {
		p := &problems[i]
		a := interrupted(p)
		if plans[i].Status == plan.Infeasible || a.of(&plans[i]) == 0 {
			continue
		}
		proportional := plans[i].CostModel == plan.CostProportional
		all = !proportional && a.keepsWithin(p, &plans[i], a.allowed(p, &plans[i]), 0) && all
	}
	return all
}

// mostSpared bounds the spare machines of one group.
const mostSpared = 64

// standing is a group of a plan as interruptions see it.
type standing struct {
	group  *plan.Group
	module *plan.Module
	needs  int
	away   float64 // share of the time that each of its machines is missed
	weight float64 // its part of the module's requests
	price  float64
	most   int // spare machines that it may have
}

// missing is the share of the module's requests that find no machine of the group
// when it has so many to spare: weight · E[max(0, K - spare)] / needs, with K machines
// away, K ~ Bin(needs + spare, away).
func (s *standing) missing(spare int) float64 {
	n := s.needs + spare
	sum := 0.0
	for k := spare + 1; k <= n; k++ {
		sum += float64(k-spare) * binomial(n, k, s.away)
	}
	return s.weight * sum / float64(s.needs)
}

// binomial is the probability of k out of n.
func binomial(n, k int, p float64) float64 {
	gamma := func(x int) float64 { y, _ := math.Lgamma(float64(x + 1)); return y }
	return math.Exp(gamma(n) - gamma(k) - gamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// standings are the groups that interruptions touch, with no more than most spare
// machines each. What shares a device, or rides on one, has none: it is away with it.
func (a away) standings(p *plan.Problem, out *plan.Plan, most int) []standing {
	var all []standing
	for i := range out.Modules {
		m := &out.Modules[i]
		for k := range m.Groups {
			g := &m.Groups[k]
			s := standing{group: g, module: m, needs: max(1, int(math.Ceil(g.Machines-plan.RateTolerance))), away: a[g.Hardware], weight: g.Rate / m.Rate, most: most}
			if g.Rides || g.Deadline > 0 {
				s.needs, s.most = 1, 0
			}
			if g.Rides {
				s.away = a.of(out)
			}
			for _, h := range p.Hardware {
				if h.Name == g.Hardware {
					s.price = h.Price
					if h.Count > 0 {
						s.most = min(s.most, max(0, h.Count-s.needs))
					}
				}
			}
			if s.away > 0 && s.weight > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// choice is how many spare machines the first groups have.
type choice struct {
	cost    float64
	missing float64
	spare   []int
}

// cheapest finds the spare machines of least cost that leave no more than allowed of
// the requests without a machine; where none do, those that leave least. It goes
// through the groups and keeps the choices that no other is both cheaper and safer
// than.
func cheapest(groups []standing, allowed float64) choice {
	front := []choice{{}}
	for i := range groups {
		s := &groups[i]
		var next []choice
		for spare := 0; spare <= s.most; spare++ {
			missing := s.missing(spare)
			for _, c := range front {
				next = append(next, choice{c.cost + s.price*float64(spare), c.missing + missing, append(slices.Clone(c.spare), spare)})
			}
			if missing <= allowed*plan.RateTolerance {
				break // more change nothing
			}
		}
		slices.SortFunc(next, func(a, b choice) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.missing, b.missing)) })
		front = front[:0:0]
		for _, c := range next {
			if len(front) == 0 || c.missing < front[len(front)-1].missing {
				front = append(front, c)
			}
		}
	}
	for _, c := range front {
		if c.missing <= allowed {
			return c
		}
	}
	return front[len(front)-1]
}

// keepsWithin adds the spare machines that a plan needs, at most most in a group. It is
// false where the plan still misses more than allowed, or there are too few devices.
func (a away) keepsWithin(p *plan.Problem, out *plan.Plan, allowed float64, most int) bool {
	groups := a.standings(p, out, most)
	if len(groups) == 0 {
		return true
	}
	c := cheapest(groups, allowed)
	i := plan.Interruptions{Missing: math.Min(1, c.missing), Allowed: allowed, SpareCost: c.cost}
	used := map[string]float64{}
	for k := range groups {
		s, spare := &groups[k], float64(c.spare[k])
		i.Spare += spare
		if spare > 0 {
			s.group.Machines, s.group.Spare = float64(s.needs)+spare, spare
			s.module.Cost += spare * s.price
		}
		if !s.group.Rides && s.group.Deadline == 0 {
			used[s.group.Hardware] += s.group.Machines
		}
	}
	out.Cost += c.cost
	out.Interruptions = &i
	for _, h := range p.Hardware {
		if h.Count > 0 && used[h.Name] > float64(h.Count) {
			return false
		}
	}
	return c.missing <= allowed
}

// attempt plans as if devices that are taken back were dearer, on devices that
// modules do not share, and adds spare machines.
func (a away) attempt(p plan.Problem, o Options, surcharge, allowed float64) plan.Plan {
	q := p
	q.Hardware = slices.Clone(p.Hardware)
	for i := range q.Hardware {
		if a[q.Hardware[i].Name] > 0 {
			q.Hardware[i].Price *= surcharge
		}
	}
	if simulated(&p.Pipeline) && p.Pipeline.Target() > 0 {
		q.Pipeline.Attainment = p.Pipeline.Target() + allowed
	}
	o.CostModel = plan.CostWhole
	out := solve(q, o)
	if out.Status == plan.Infeasible {
		return out
	}
	reprice(&out, p.Hardware)
	if !a.keepsWithin(&p, &out, allowed, mostSpared) {
		out.Status = plan.Infeasible
	}
	return out
}

// reprice charges a plan of whole devices what they cost.
func reprice(out *plan.Plan, hardware []pipelines.Hardware) {
	price := map[string]float64{}
	for _, h := range hardware {
		price[h.Name] = h.Price
	}
	out.Cost = 0
	for i := range out.Modules {
		m := &out.Modules[i]
		m.Cost = 0
		for _, g := range m.Groups {
			if !g.Rides {
				m.Cost += g.Machines * price[g.Hardware]
			}
		}
		out.Cost += m.Cost
	}
}
