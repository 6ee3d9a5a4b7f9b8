package sizing

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Before anything is simulated, an estimate gives how much a module needs beyond its rate.
// Its items come at a rate T with a variance of c of their number for each of them, and
// devices take M of them a second. By the diffusion approximation of a queue with such
// arrivals and even service (Kingman 1962), a share of about exp(-2·(M-T)·x/c) waits for
// longer than x, the time that its budget leaves beside a batch. That is one for each miss
// allowed where M = T + ln(1/miss)·c/(2x).

// queue is the input of the estimate for one module.
type queue struct{ rate, budget, wait, variance float64 }

// estimates are the queues of all modules, as the plan for even arrivals has them.
func (s *sizer) estimates() map[string]queue {
	all := map[string]queue{}
	for i := range s.base.Modules {
		m := &s.base.Modules[i]
		q := queue{rate: s.rates[m.Name], variance: 1, budget: m.Budget.Seconds()}
		if s.load.Arrivals.Kind == pipelines.ArrivalsGamma && s.load.Arrivals.Shape > 0 {
			q.variance = 1 / s.load.Arrivals.Shape
		}
		if items := q.rate / s.load.Rate; items > 1 {
			q.variance = q.variance*items + 1
		}
		_, q.wait = q.served(m)
		all[m.Name] = q
	}
	return all
}

// spare is for how many times its rate each module is planned, where -ln(miss)/2 is so much.
func (s *sizer) spare(much float64) map[string]float64 {
	by := map[string]float64{}
	for name, q := range s.queues {
		by[name] = 1
		if q.rate > 0 && q.wait > 0 {
			by[name] = math.Min(mostSpare, 1+much*q.variance/q.wait/q.rate)
		}
	}
	return by
}

// allowed is that much for the misses that the target leaves.
func (s *sizer) allowed() float64 { return math.Log(1/(1-math.Min(s.target, 0.9999))) / 2 }

// mostSpared reports whether that much is all that is tried.
func (s *sizer) mostSpared(much float64) bool {
	for _, x := range s.spare(much) {
		if x < mostSpare {
			return false
		}
	}
	return true
}

// settles is how many seconds the queues of a plan take, from empty ones, to become as long as they
// will be: some 4/(1-T/M)² arrivals by the same approximation, and no more than it takes until some
// are late where devices are used to the full.
func (s *sizer) settles(p *plan.Plan) float64 {
	longest := 0.0
	for i := range p.Modules {
		q, slo := s.queues[p.Modules[i].Name], s.load.Pipeline.SLO.Seconds()
		served, _ := q.served(&p.Modules[i])
		if served == 0 || q.rate == 0 {
			continue
		}
		takes := slo * slo * q.rate / q.variance
		if left := 1 - q.rate/served; left > 0 {
			takes = math.Min(takes, 4*q.variance/(q.rate*left*left))
		}
		longest = math.Max(longest, takes)
	}
	return longest
}

// missed is the share of a module's items that the estimate has late.
func (s *sizer) missed(m *plan.Module) float64 {
	q := s.queues[m.Name]
	served, wait := q.served(m)
	if served == 0 {
		return 0
	}
	return math.Min(1, math.Exp(-2*(served-q.rate)*wait/q.variance))
}

// served is what the devices of a module take a second, and for how long an item may wait for one.
func (q queue) served(m *plan.Module) (served, wait float64) {
	busy := 0.0
	for _, g := range m.Groups {
		if g.Rides {
			return 0, 0
		}
		served += g.Machines * float64(g.Batch) / g.Duration.Seconds()
		busy += g.Machines * float64(g.Batch)
	}
	if served == 0 {
		return 0, 0
	}
	return served, math.Max(q.budget-busy/served, q.budget/16)
}

// add adds devices to a plan, where modules have them for themselves: in every way that costs less
// than the best, if there are few. It tries the largest only, as no part of one that fails would do.
func (s *sizer) add(from *plan.Plan) {
	if s.best == nil || s.dear(from) {
		return
	}
	for tried := 0; tried < mostAdded; {
		ways := s.ways(from)
		if len(ways) > mostAdded-tried {
			return
		}
		better := false
		for i := 0; i < len(ways) && !better; i++ {
			if s.halted() {
				return
			}
			tried++
			better = s.meets(&ways[i])
		}
		if !better {
			return
		}
	}
}

// with is the plan with one more device for a group, and what that costs; 0 where the group has
// none of its own or there is no more.
func (s *sizer) with(p *plan.Plan, module, group int) (plan.Plan, float64) {
	out, g := *p, p.Modules[module].Groups[group]
	if g.Rides || g.Deadline > 0 || g.Machines == 0 {
		return out, 0
	}
	price := 0.0
	for _, h := range s.problem.Hardware {
		if h.Name == g.Hardware && (h.Count == 0 || p.MachinesOf(h.Name)+1 <= float64(h.Count)) {
			price = h.Price
		}
	}
	out.Modules = slices.Clone(p.Modules)
	m := &out.Modules[module]
	m.Groups = slices.Clone(m.Groups)
	m.Groups[group].Machines++
	m.Cost, out.Cost = m.Cost+price, out.Cost+price
	return out, price
}

// ways are all plans with devices added to which none can be added without being as dear as the
// best; no more than one beyond mostAdded.
func (s *sizer) ways(from *plan.Plan) (all []plan.Plan) {
	var more func(p *plan.Plan, module, group int)
	more = func(p *plan.Plan, module, group int) {
		largest := true
		for i := range p.Modules {
			for k := range p.Modules[i].Groups {
				next, price := s.with(p, i, k)
				if price == 0 || s.dear(&next) {
					continue
				}
				largest = false
				if i > module || i == module && k >= group { // each in one order only
					more(&next, i, k)
				}
				if len(all) > mostAdded {
					return
				}
			}
		}
		if largest {
			all = append(all, *p)
		}
	}
	more(from, 0, 0)
	return all
}
