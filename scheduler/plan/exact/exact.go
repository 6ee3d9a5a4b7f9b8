package exact

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// twoGroups is the Restriction of a lower bound that holds for plans with at
// most two groups a module, each of one kind of hardware, whose first batches
// are released together (see whole_module.go).
const twoGroups = "at most two groups a module"

// Policy finds the least cost of a sound plan.
type Policy struct {
	// Start is a good plan's split to begin with, as worst cases by module; false
	// where there is none. Nil for no start.
	Start func(*plan.Prepared) ([]time.Duration, bool)
}

// Complete checks the options: a search knows only what it may choose from.
func (Policy) Complete(o plan.Options) (plan.Options, error) {
	err := o.Check(plan.Choices{Steps: []string{"hetero", "hetero:dearest", "batch", "concurrency"}})
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
		return nil, p.NoSplit("")
	}
	for i := range found {
		found[i] = max(found[i], p.steps[i].budget)
	}
	return p.ByName(found), nil
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
		return plan.Plan{}, p.NoSplit("")
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
	declared       *plan.Prepared // as it was asked
	steps          []colocated    // by module; the zero value for modules that are not
	own            *wholeProblem  // on devices of its own; nil under the proportional cost model
	start          func(*plan.Prepared) ([]time.Duration, bool)
}

func newProblem(ready *plan.Prepared, start func(*plan.Prepared) ([]time.Duration, bool)) *problem {
	p := &problem{Prepared: ready, declared: ready, steps: make([]colocated, len(ready.Modules)), start: start}
	if ready.Options.CostModel == plan.CostProportional {
		return p
	}
	p.colocate()
	p.own = newWhole(p.Prepared)
	return p
}

func (p *problem) shared() bool { return p.Options.CostModel == plan.CostShared }

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
	switch p.Options.CostModel {
	case plan.CostProportional:
		return p.searchProportional()
	case plan.CostWhole:
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
			return plan.Plan{}, p.NoSchedule(i, budget, "")
		}
		sets[i] = set
	}
	split.Reassign(p.Prepared, sets, false, p.solve)
	p.Lend(sets)
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
	return split.Cheapest(p.Modules[i], budget)
}

// certify writes a lower bound, in weights, into the plan.
func (p *problem) certify(out *plan.Plan, bound float64) {
	restriction := ""
	if p.own != nil && p.own.Restricted {
		restriction = twoGroups
	}
	p.Certify(out, bound, restriction)
}
