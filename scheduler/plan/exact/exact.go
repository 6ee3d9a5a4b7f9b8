package exact

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// twoGroups is the Restriction of a lower bound that holds for plans with at
// most two groups a module, each of one kind of hardware, whose first batches
// are released together (see whole_module.go).
const twoGroups = "at most two groups a module"

// ownDevices is that of one for streams, whose modules share no devices where phases are any or some keep
// state.
const ownDevices = "modules on devices of their own"

// Policy finds the least cost of a sound plan.
type Policy struct {
	// Start is a good plan's split to begin with, as worst cases by module; false
	// where there is none. Nil for no start.
	Start func(*plan.Prepared) ([]time.Duration, bool)
}

// Complete checks the options: a search may only be restricted to choices that it has.
func (Policy) Complete(o plan.Options) (plan.Options, error) {
	err := o.Check()
	o.Concurrency = true
	return o, err
}

// Split is that of least cost.
func (e Policy) Split(ready *plan.Prepared) (plan.Budgets, error) {
	p := newProblem(ready, e.Start)
	if err := p.checkPath(); err != nil {
		return nil, err
	}
	found, _, ok := p.search()
	if !ok {
		return nil, p.noSplit()
	}
	for i := range found {
		found[i] = max(found[i], p.steps[i].budget)
	}
	return p.ByName(found), nil
}

// noSplit reports why there is none.
func (p *problem) noSplit() error {
	for i, m := range p.Modules {
		if _, ok := p.solve(i, p.Pipeline.SLO); m.Limit > 0 && !ok {
			return p.NoSchedule(i, m.Limit, ", which is 1/rate of its streams less their jitter: it keeps state, so that a frame has to be answered before the next of its stream comes; lower rate or jitter, or profile faster hardware")
		}
	}
	return p.NoSplit("")
}

// Schedule serves every module at least cost within its budget.
func (e Policy) Schedule(ready *plan.Prepared, b plan.Budgets) (plan.Plan, error) {
	p := newProblem(ready, e.Start)
	budgets, err := p.budgets(b)
	if err != nil {
		return plan.Plan{}, err
	}
	if p.shared() {
		return p.packed(budgets)
	}
	return p.scheduled(budgets)
}

// Solve plans with one search.
func (e Policy) Solve(ready *plan.Prepared) (plan.Plan, error) {
	p := newProblem(ready, e.Start)
	if err := p.checkPath(); err != nil {
		return plan.Plan{}, err
	}
	if p.shared() {
		return p.solveShared()
	}
	found, bound, ok := p.search()
	if !ok {
		return plan.Plan{}, p.noSplit()
	}
	out, err := p.scheduled(found)
	if err == nil {
		p.certify(&out, bound)
	}
	return out, err
}

// Certify writes the bound that a search of its own proves.
func (e Policy) Certify(ready *plan.Prepared, out *plan.Plan) {
	p := newProblem(ready, e.Start)
	_, bound, _ := p.search()
	p.certify(out, bound)
}

// problem is what the searches work on.
type problem struct {
	*plan.Prepared                // what is left of the declared one without co-located steps
	declared       *plan.Prepared // before tightening
	steps          []colocated    // by module; the zero value for modules that are not
	own            *wholeProblem  // on devices of its own; nil under the proportional cost model
	proves         bool           // something may be promised to every request
	start          func(*plan.Prepared) ([]time.Duration, bool)
}

func newProblem(ready *plan.Prepared, start func(*plan.Prepared) ([]time.Duration, bool)) *problem {
	p := &problem{Prepared: ready, declared: ready, steps: make([]colocated, len(ready.Modules)), proves: ready.Pipeline.ProvesEvery(), start: start}
	if ready.Options.CostModel == plan.CostProportional {
		return p
	}
	p.colocate()
	p.own = newWhole(p.Prepared)
	return p
}

// bursts reports whether items come to some module in bursts.
func (p *problem) bursts() bool {
	return slices.ContainsFunc(p.Modules, func(m *plan.ModuleProblem) bool { return m.Bursts.Items > 0 && m.Rate > 0 })
}

// branches reports whether some requests leave out a module.
func (p *problem) branches() bool {
	return slices.ContainsFunc(p.Modules, func(m *plan.ModuleProblem) bool { return len(m.Branch) > 0 })
}

// phased reports whether a device may be proven by when the batches of the pipeline come.
func (p *problem) phased() bool { return p.bursts() || p.branches() }

// streams reports whether items are those of streams of unknown phases: they come in no
// bursts that devices could run one after the other.
func (p *problem) streams() bool {
	return slices.ContainsFunc(p.Modules, func(m *plan.ModuleProblem) bool { return m.Bursts.Any })
}

// states reports whether a module keeps state between frames, for which it has devices of its own.
func (p *problem) states() bool {
	return slices.ContainsFunc(p.Modules, func(m *plan.ModuleProblem) bool { return m.Limit > 0 })
}

// apart reports whether modules have devices of their own whatever they cost.
func (p *problem) apart() bool { return p.streams() || p.states() }

// shared reports whether modules may share devices.
func (p *problem) shared() bool { return p.Options.CostModel == plan.CostShared && !p.apart() }

func (p *problem) checkPath() error { return p.CheckPath(p.Fastest(), false) }

// budgets reads what a caller brings. Those of co-located steps are fixed, and no
// part of the objective that is left.
func (p *problem) budgets(b plan.Budgets) ([]time.Duration, error) {
	list, err := p.declared.InOrder(b)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if p.steps[i].rate > 0 {
			list[i] = 0
		}
	}
	return p.InOrder(p.ByName(list))
}

// search finds the split of least cost by branch and bound, with a lower bound
// in weights.
func (p *problem) search() (found []time.Duration, bound float64, ok bool) {
	switch {
	case p.Options.CostModel == plan.CostProportional:
		return p.searchProportional()
	case !p.shared():
		return p.searchWhole()
	}
	best, _, bound := newPacker([]*problem{p}).search()
	if best == nil {
		return nil, 0, false
	}
	return best.budgets[0], bound, true
}

// searchProportional is search under the proportional cost model.
func (p *problem) searchProportional() (found []time.Duration, bound float64, ok bool) {
	b := split.NewProportional(p.Prepared)
	b.Offer(p.DAG.Stretch(p.Fastest(), p.Pipeline.SLO))
	bound = b.Run()
	return b.Found, bound, b.Found != nil
}

// searchWhole is search for devices of the modules' own.
func (p *problem) searchWhole() (found []time.Duration, bound float64, ok bool) {
	if start, ok := p.started(); ok {
		return p.own.Search(start)
	}
	return p.own.Search()
}

// started is the split to begin with; false where finding it takes long.
func (p *problem) started() ([]time.Duration, bool) {
	const most = 600 // configurations of all modules
	n := 0
	for _, m := range p.Modules {
		n += len(m.Configs)
	}
	if p.start == nil || n > most {
		return nil, false
	}
	return p.start(p.Prepared)
}

// scheduled serves every module within its budget, on devices of its own, and
// gives what is left of the objective to modules that save by it.
func (p *problem) scheduled(budgets []time.Duration) (plan.Plan, error) {
	sets := make([]plan.Schedule, len(p.Modules))
	for i, budget := range budgets {
		set, ok := p.solve(i, budget)
		if !ok {
			return plan.Plan{}, p.NoSchedule(i, p.Modules[i].Within(budget), "")
		}
		sets[i] = set
	}
	split.Reassign(p.Prepared, sets, false, p.solve)
	if p.streams() && p.own != nil {
		p.own.useLeastOfStreams(sets, p.DAG.Stretch(plan.Worsts(sets), p.Pipeline.SLO))
	}
	if p.bursts() {
		return p.write(sets, plan.Worsts(sets)), nil
	}
	p.DistributeSlack(sets)
	budgets = p.DAG.Stretch(plan.Worsts(sets), p.Pipeline.SLO)
	if p.own != nil {
		p.own.UseLeast(sets, budgets)
	}
	return p.write(sets, budgets), nil
}

// solve is the cheapest sound schedule of a module.
func (p *problem) solve(i int, budget time.Duration) (plan.Schedule, bool) {
	if p.own != nil {
		return p.own.Modules[i].Within(budget)
	}
	return split.Cheapest(p.Modules[i], p.Modules[i].Within(budget))
}

// certify writes a lower bound, in weights, into the plan.
func (p *problem) certify(out *plan.Plan, bound float64) {
	restriction := ""
	switch {
	case p.apart() && p.Options.CostModel == plan.CostShared:
		restriction = ownDevices
	case p.own != nil && p.own.Restricted:
		restriction = twoGroups
	}
	p.Certify(out, bound, restriction)
}

// SolveAll plans several pipelines together under cost model shared, in their
// order: groups of different pipelines may share devices, and a plan is charged
// for its part of a device in proportion to the time that it uses. It is false
// where there is nothing to share: another cost model, one pipeline, hardware that
// means different things, or of which only so much exists.
func (e Policy) SolveAll(problems []plan.Problem, o plan.Options) ([]plan.Plan, bool) {
	if o.CostModel != "" && o.CostModel != plan.CostShared || len(problems) < 2 {
		return nil, false
	}
	return plan.SolveTogether(problems, o, e.solveTogether)
}

func (e Policy) solveTogether(problems []plan.Problem, o plan.Options) ([]plan.Plan, bool) {
	plans := make([]plan.Plan, len(problems))
	var able []*problem
	var index []int
	for i, p := range problems {
		if p.Limited() || !sameHardware(&p, &problems[0]) {
			return nil, false
		}
		ready, err := plan.Prepare(&p, o, e)
		if err != nil {
			plans[i] = o.Infeasible(&p, err)
			continue
		}
		one := newProblem(ready, e.Start)
		if one.apart() { // which share no devices
			if plans[i], err = e.Solve(ready); err != nil {
				plans[i] = o.Infeasible(&p, err)
			}
			continue
		}
		if err := one.checkPath(); err != nil {
			plans[i] = o.Infeasible(&p, err)
			continue
		}
		able, index = append(able, one), append(index, i)
	}
	if len(able) == 0 {
		return plans, true
	}
	s := newPacker(able)
	best, bounds, total := s.search()
	if best == nil {
		return nil, false
	}
	for k, p := range s.plans(best) {
		able[k].certify(&p, bounds[k])
		if share := shareOf(total, bounds, k); plan.Cheaper(bounds[k], share) {
			p.LowerBound, p.Restriction = math.Min(share, p.Cost), Together
		}
		plans[index[k]] = p
	}
	if best.weight <= total*(1+plan.OptimalityGap) {
		for _, i := range index {
			plans[i].Status = plan.Optimal
		}
	}
	return plans, true
}

// Together is the Restriction of the lower bound of a plan that was made together
// with others: only the sum of their bounds is one, of what all of them cost.
const Together = "what it and the pipelines planned with it cost together"

// shareOf is what one pipeline has of the bound of all: as its own bound is to the
// sum of these. What plans that share devices cost one by one is a matter of how
// they are charged; only their sum has a bound that whole devices raise.
func shareOf(total float64, bounds []float64, k int) float64 {
	sum := 0.0
	for _, b := range bounds {
		sum += b
	}
	if sum <= 0 {
		return bounds[k]
	}
	return bounds[k] / sum * total
}

func sameHardware(a, b *plan.Problem) bool {
	if len(a.Hardware) != len(b.Hardware) {
		return false
	}
	for i := range a.Hardware {
		if a.Hardware[i] != b.Hardware[i] {
			return false
		}
	}
	return true
}

// plans writes a packing as one plan a pipeline.
func (s *packer) plans(best *packing) []plan.Plan {
	sets := make([][]plan.Schedule, len(s.problems))
	for i, p := range s.problems {
		sets[i] = make([]plan.Schedule, len(p.Modules))
	}
	for _, at := range best.parts {
		set := &sets[at.pipeline][at.module]
		for _, t := range at.dedicated {
			set.Add(t)
		}
	}
	devices := make([]plan.Device, len(best.bins))
	users := make([][]bool, len(best.bins))
	for k := range best.bins {
		devices[k], users[k] = s.device(&best.bins[k], best, sets)
	}
	plans := make([]plan.Plan, len(s.problems))
	for i, p := range s.problems {
		budgets := best.budgets[i]
		if !p.phased() {
			if p.DistributeSlack(sets[i]) {
				budgets = p.DAG.Stretch(plan.Worsts(sets[i]), p.Pipeline.SLO)
			}
			p.own.UseLeast(sets[i], budgets)
		}
		plans[i] = p.write(sets[i], budgets)
		for k := range devices {
			if users[k][i] {
				plans[i].Devices = append(plans[i].Devices, devices[k])
			}
		}
		plans[i].UseDevices(plans[i].Devices)
	}
	for _, together := range users {
		s.unproven(plans, together)
	}
	return plans
}

// unproven takes the promise for every request from pipelines that share a device with one
// whose arrivals are unknown.
func (s *packer) unproven(plans []plan.Plan, together []bool) {
	known := true
	for i, shares := range together {
		known = known && (!shares || s.problems[i].proves)
	}
	for i, shares := range together {
		if shares && !known {
			plans[i].Disprove()
		}
	}
}

// device adds the tasks of a shared device to the schedules of their modules,
// charged with their part of it.
func (s *packer) device(b *bin, best *packing, sets [][]plan.Schedule) (plan.Device, []bool) {
	d := plan.Device{Hardware: b.kind.hardware, Price: b.kind.price, Share: b.total(), InPhase: b.inPhase}
	if b.inPhase {
		d.Share = b.busy(best.parts)
	}
	if b.held != nil {
		d.Tasks = slices.Clone(b.held.Tasks)
	}
	users := make([]bool, len(s.problems))
	for k, i := range b.parts {
		at, w := best.parts[i], b.options[k]
		users[at.pipeline] = true
		set := &sets[at.pipeline][at.module]
		task := plan.Task{
			Pipeline: s.problems[at.pipeline].Pipeline.Name, Module: s.problems[at.pipeline].Modules[at.module].Name,
			Group: len(set.Allocations), Duration: w.blocks(), Period: w.period, Deadline: w.deadline, Share: w.use,
		}
		a := plan.Allocation{
			Config: *w.Config, Machines: w.use, Rate: at.residual, Collect: at.residual, Period: w.period, Window: w.window,
			Deadline: w.deadline, Worst: w.window + w.deadline, Charge: w.use / b.total(),
		}
		if w.burst != nil {
			a.Config, a.Items, task.AtOnce = *w.burst.one, at.items, w.burst.atOnce
		}
		if b.inPhase {
			task.Offset, task.Branch = at.offset+w.window, at.branch
		}
		d.Tasks = append(d.Tasks, task)
		set.Add(a)
	}
	return d, users
}

// packed plans one pipeline under given budgets.
func (p *problem) packed(budgets []time.Duration) (plan.Plan, error) {
	s := newPacker([]*problem{p})
	best := s.under(allBudgets{budgets})
	if best == nil {
		return plan.Plan{}, p.noSplit()
	}
	return s.plans(best)[0], nil
}

// solveShared plans one pipeline under cost model shared.
func (p *problem) solveShared() (plan.Plan, error) {
	s := newPacker([]*problem{p})
	best, _, bound := s.search()
	if best == nil {
		return plan.Plan{}, p.noSplit()
	}
	out := s.plans(best)[0]
	p.certify(&out, bound)
	return out, nil
}
