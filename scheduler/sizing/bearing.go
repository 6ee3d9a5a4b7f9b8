package sizing

import (
	"cmp"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

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

// bear gives a plan the spare machines that it needs, at most so many a group, and
// says what it misses then. It is false where that is more than allowed, or the
// devices that exist are not enough.
func (a away) bear(p *plan.Problem, out *plan.Plan, allowed float64, most int) bool {
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
func (a away) attempt(p plan.Problem, o plan.Options, surcharge, allowed float64) plan.Plan {
	q := p
	q.Hardware = slices.Clone(p.Hardware)
	for i := range q.Hardware {
		if a[q.Hardware[i].Name] > 0 {
			q.Hardware[i].Price *= surcharge
		}
	}
	if random(&p.Pipeline) && p.Pipeline.Target() > 0 {
		q.Pipeline.Attainment = p.Pipeline.Target() + allowed
	}
	o.CostModel = plan.CostWhole
	out := solve(q, o)
	if out.Status == plan.Infeasible {
		return out
	}
	reprice(&out, p.Hardware)
	if !a.bear(&p, &out, allowed, mostSpared) {
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
