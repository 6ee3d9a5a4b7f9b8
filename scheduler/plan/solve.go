package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Solve plans one pipeline. It always returns a plan: when the objective
// cannot be met, or the problem or the options make no sense, the plan has
// status Infeasible and says why in Reason.
func Solve(p Problem, o Options) Plan {
	watch := o.stopwatch()
	plan := solve(p.tightened(), o.started())
	plan.keep(&p)
	plan.SolveTime = watch()
	return plan
}

func solve(p Problem, o Options) Plan {
	if o.policy() == PolicyExact {
		plan, err := solveExact(p, o)
		if err != nil {
			return o.infeasible(&p, err)
		}
		return plan
	}
	if o.policy() == PolicyBrute && !p.limited() {
		return solveBrute(p, o)
	}
	budgets, err := splitLatency(p, o)
	if err != nil {
		return o.infeasible(&p, err)
	}
	plan, err := scheduleModules(p, o, budgets)
	if err != nil {
		return o.infeasible(&p, err)
	}
	return plan
}

// SplitLatency divides the SLO among the modules: Algorithm 2 of the Harpagon
// paper with node merger and cost-direct, or what Options.Split asks for; for
// policy exact, the split of least cost. The
// budget of a pipeline's only module is the SLO, less the headroom. An objective
// that cannot be met is an *InfeasibleError.
func SplitLatency(p Problem, o Options) (Budgets, error) {
	budgets, err := splitLatency(p.tightened(), o.started())
	return budgets, p.explained(err)
}

func splitLatency(p Problem, o Options) (Budgets, error) {
	left, err := affordable(p, o)
	if err != nil {
		return nil, err
	}
	return splitOnce(left, o)
}

func splitOnce(p Problem, o Options) (Budgets, error) {
	pl, err := newPlanner(&p, o)
	if err != nil {
		return nil, err
	}
	if err := pl.checkPath(); err != nil {
		return nil, err
	}
	shares, ok := pl.divided()
	if !ok {
		return nil, pl.noSplit()
	}
	budgets := Budgets{}
	for i, name := range pl.dag.names {
		budgets[name] = max(shares[i], pl.modules[i].fare)
	}
	return budgets, nil
}

func (p *planner) divided() ([]time.Duration, bool) {
	switch {
	case p.options.policy() == PolicyExact:
		found, _, ok := p.exact()
		return found, ok
	case p.options.policy() == PolicyBrute:
		found, _, ok := p.brute()
		return found, ok
	case len(p.modules) == 1:
		return []time.Duration{p.pipe.SLO}, true
	case p.split.kind == "even":
		return p.even(), true
	case p.split.kind == "quantized":
		return p.quantized(p.split.step)
	}
	return p.resized(p.descent())
}

// descent splits by Algorithm 2. With node merger or cost-direct there are
// several results; the one whose schedule costs least is taken, the plain one
// where costs are equal.
func (p *planner) descent() ([]time.Duration, bool) {
	first, ok := p.start()
	if !ok {
		return nil, false
	}
	rank := byEfficiency
	if p.split.kind == "throughput" {
		rank = byThroughput
	}
	var finals, passed []state
	for _, merge := range []bool{false, true} {
		units := p.units(merge)
		if merge && (p.options.without("merge") || len(units) == len(p.modules)) {
			continue
		}
		path := p.descend(first, units, rank)
		passed = append(passed, path...)
		if p.options.without("direct") {
			finals = append(finals, path[len(path)-1])
		} else {
			finals = append(finals, p.direct(path, units)...)
		}
	}
	if best, ok := p.cheapest(finals); ok {
		return best, true
	}
	return p.retreat(passed, finals[0])
}

func (p *planner) cheapest(finals []state) (best []time.Duration, found bool) {
	least := math.Inf(1)
	for _, s := range finals {
		if sets, err := p.schedule(s.worst); err == nil && cheaper(total(sets), least) {
			best, least, found = s.worst, total(sets), true
		}
	}
	return best, found
}

func total(sets []schedule) float64 {
	sum := 0.0
	for i := range sets {
		sum += sets[i].weight
	}
	return sum
}

// ScheduleModules chooses groups for every module within its budget:
// Algorithm 1 of the Harpagon paper with dummy generator and latency
// reassigner; for policy exact, the cheapest configuration, and the plan carries
// its lower bound. What is left of the SLO is spread over the modules' budgets in
// proportion. A module that cannot keep its budget is an *InfeasibleError.
func ScheduleModules(p Problem, o Options, b Budgets) (Plan, error) {
	watch := o.stopwatch()
	out, err := scheduleModules(p.tightened(), o.started(), b)
	if err != nil {
		return out, p.explained(err)
	}
	out.keep(&p)
	out.SolveTime = watch()
	return out, nil
}

func scheduleModules(p Problem, o Options, b Budgets) (Plan, error) {
	left := p
	if p.limited() {
		// As the split was found: it counts on who does without which hardware.
		if found, err := affordable(p, o); err == nil {
			left = found
		}
		if out, err := scheduleOnce(left, o, b); err != nil || len(shortages(&left, &out)) > 0 {
			left = p
		}
	}
	var first *Plan
	for {
		out, err := scheduleOnce(left, o, b)
		if err != nil && first != nil {
			err = tooFew(p, o, first)
		}
		if err != nil {
			return Plan{}, err
		}
		short := shortages(&left, &out)
		if len(short) == 0 {
			return out, bounded(p, o, &out)
		}
		if first == nil {
			first = &out
		}
		left = relieved(left, short, func(p Problem) (Plan, error) { return scheduleOnce(p, o, b) })
	}
}

func scheduleOnce(p Problem, o Options, b Budgets) (Plan, error) {
	pl, err := newPlanner(&p, o)
	if err != nil {
		return Plan{}, err
	}
	budgets, err := pl.budgets(b)
	if err != nil {
		return Plan{}, err
	}
	if pl.sharing() {
		return pl.packed(budgets)
	}
	sets, err := pl.schedule(budgets)
	if err != nil {
		return Plan{}, err
	}
	if !pl.options.without("reassign") {
		budgets = pl.dag.stretch(worsts(sets), pl.pipe.SLO)
	}
	if pl.squishing() {
		devices := pl.squish(sets, budgets)
		out := pl.plan(sets, budgets)
		out.ontoDevices(devices)
		return out, nil
	}
	return pl.plan(sets, budgets), nil
}

// budgets reads what a caller brings, in the order of the DAG.
func (p *planner) budgets(b Budgets) ([]time.Duration, error) {
	list := make([]time.Duration, len(p.modules))
	for i, m := range p.modules {
		budget, ok := b[m.name]
		if !ok || budget < 0 {
			return nil, fmt.Errorf("plan: the budget of module %q is missing or negative; budgets come from SplitLatency", m.name)
		}
		if list[i] = budget; m.rider > 0 {
			list[i] = 0 // its budget is fixed, and not part of the objective here
		}
	}
	if long := p.dag.longest(list); long > p.pipe.SLO {
		return nil, fmt.Errorf("plan: the budgets add up to %s along a path, more than the SLO of %s", spell(long), spell(p.pipe.SLO))
	}
	return list, nil
}

func (p *planner) schedule(budgets []time.Duration) ([]schedule, error) {
	p.listed(budgets, false)
	sets := make([]schedule, len(p.modules))
	for i, m := range p.modules {
		set, ok := m.solve(budgets[i])
		if !ok {
			return nil, p.noSchedule(m, budgets[i])
		}
		sets[i] = set
	}
	if !p.options.without("reassign") {
		p.reassign(sets)
	}
	return sets, nil
}

func (p *planner) noSplit() error {
	reason := fmt.Sprintf("no split of the SLO of %s lets every module collect its batches", spell(p.pipe.SLO))
	if p.options.without("dummy") && !p.options.fixed() {
		reason += "; the rate is low, and dummy requests are switched off"
	}
	return &InfeasibleError{Pipeline: p.pipe.Name, SLO: p.pipe.SLO, Reason: reason + "; raise the SLO"}
}

func (p *planner) noSchedule(m *scheduler, budget time.Duration) error {
	reason := fmt.Sprintf("module %s cannot serve %.4g requests per second within its budget of %s", m.name, m.rate, spell(budget))
	if p.options.without("dummy") && !p.options.fixed() {
		reason += "; the last of them come too slowly to fill a batch, and dummy requests are switched off"
	}
	return &InfeasibleError{Pipeline: p.pipe.Name, Path: []string{m.name}, SLO: p.pipe.SLO, Reason: reason}
}

func (o Options) infeasible(p *Problem, err error) Plan {
	plan := Plan{Pipeline: p.Pipeline.Name, Policy: o.policy(), CostModel: o.costModel(), Status: Infeasible, Reason: err.Error(), SLO: p.Pipeline.SLO}
	var why *InfeasibleError
	if errors.As(err, &why) {
		plan.Reason = why.Reason
	}
	return plan
}

func (o Options) stopwatch() func() time.Duration {
	if o.Clock == nil {
		return func() time.Duration { return 0 }
	}
	start := o.Clock()
	return func() time.Duration { return max(0, o.Clock()-start) }
}

// started notes that the search begins now. What it calls goes on with the same
// clock, however often it solves a part anew.
func (o Options) started() Options {
	if o.until == nil {
		stop, limit, watch := o.Stop, o.TimeLimit, func() time.Duration { return 0 }
		if limit > 0 {
			watch = o.stopwatch()
		}
		o.until = func() bool { return stop != nil && stop() || limit > 0 && watch() >= limit }
	}
	return o
}

// halted says that the search must end with what it has.
func (o Options) halted() bool { return o.until != nil && o.until() }

// inDeclaredOrder turns the order of the DAG into that of the declaration.
func (p *planner) inDeclaredOrder() []int {
	order := make([]int, 0, len(p.modules))
	for _, m := range p.pipe.Modules {
		order = append(order, slices.Index(p.dag.names, m.Name))
	}
	return order
}
