package plan

import (
	"math"
	"time"
)

// plan writes the schedules as the result.
func (p *planner) plan(sets []schedule, budgets []time.Duration) Plan {
	sets, budgets = p.board(sets, budgets)
	out := Plan{
		Pipeline: p.pipe.Name, Policy: p.options.policy(), CostModel: p.options.costModel(),
		Status: Feasible, SLO: max(p.pipe.SLO, p.declared), Latency: p.dag.longest(worsts(sets)),
	}
	for _, i := range p.inDeclaredOrder() {
		m := p.modules[i].result(sets[i], budgets[i])
		out.Cost += m.Cost
		out.Modules = append(out.Modules, m)
	}
	p.prove(&out)
	return out
}

func (s *scheduler) result(set schedule, budget time.Duration) Module {
	m := Module{Name: s.name, Rate: math.Max(s.rate, s.rider), DummyRate: set.dummies, Budget: budget, WorstCase: set.worst}
	for _, t := range set.tranches {
		m.Cost += t.price * t.charged()
		m.Groups = append(m.Groups, s.group(t))
	}
	// Dummy requests are given to the groups that are worst, last first: they
	// were added to fill these.
	left := set.dummies
	for i := len(m.Groups) - 1; i >= 0 && left > 0; i-- {
		g := &m.Groups[i]
		g.DummyRate = math.Min(left, g.Rate)
		g.Rate -= g.DummyRate
		left -= g.DummyRate
	}
	return m
}

func (s *scheduler) group(t tranche) Group {
	g := Group{
		Hardware: t.hardware, Batch: t.batch, Concurrency: t.concurrency, Duration: t.duration,
		Machines: t.charged(), Rate: t.rate, Period: t.period, Window: t.worst - t.duration,
	}
	if t.rides {
		g.Machines, g.Rides = t.machines, true
	}
	if t.deadline > 0 {
		g.Machines, g.Deadline, g.Window = t.machines, t.deadline, t.period+t.margin
	}
	if g.Period == 0 {
		g.Period = collection(t.batch, t.rate)
	}
	return g
}
