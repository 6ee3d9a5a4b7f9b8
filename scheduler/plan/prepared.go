package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Policy is a way to plan one pipeline. Solve, SplitLatency and ScheduleModules
// ask it; they see to what all policies share: headroom, devices of which only
// so many exist, and what is said where there is no plan.
type Policy interface {
	// Complete checks options that name the policy and fills in what it sets
	// itself: the steps that it lacks, and how it splits.
	Complete(o Options) (Options, error)

	// Split divides the objective among the modules.
	Split(p *Prepared) (Budgets, error)

	// Schedule serves every module within its budget.
	Schedule(p *Prepared, b Budgets) (Plan, error)

	// Solve does both in one search.
	Solve(p *Prepared) (Plan, error)

	// Certify writes the lower bound that the policy proves into a plan whose
	// budgets came from elsewhere.
	Certify(p *Prepared, out *Plan)
}

// Prepared is a problem in the form that policies work on: modules as indices in
// topological order. Its options are those that the policy completed.
type Prepared struct {
	Pipeline *pipelines.Pipeline
	Options  Options
	DAG      *DAG
	Modules  []*ModuleProblem
	Held     []HeldDevice // see Problem
}

// ModuleProblem is what must be known to serve one module: what stays the same
// while budgets and dummy requests are tried.
type ModuleProblem struct {
	Name    string
	Rate    float64  // real requests per second
	Single  bool     // they come one by one, 1/Rate apart
	Configs []Config // best ratio of throughput to price first
}

// Fastest is the shortest duration of the module, 0 where nothing comes to it.
func (m *ModuleProblem) Fastest() time.Duration {
	if m.Rate == 0 {
		return 0
	}
	return slices.MinFunc(m.Configs, func(a, b Config) int { return cmp.Compare(a.Duration, b.Duration) }).Duration
}

// Fastest are the shortest durations of the modules: the least times in which they answer,
// since dummy requests may fill a batch at any rate.
func (p *Prepared) Fastest() []time.Duration {
	list := make([]time.Duration, len(p.Modules))
	for i, m := range p.Modules {
		list[i] = m.Fastest()
	}
	return list
}

// FastestOn is the shortest duration on a kind of hardware, 0 where there is none.
func (m *ModuleProblem) FastestOn(hardware string) time.Duration {
	shortest := time.Duration(0)
	for _, c := range m.Configs {
		if c.Hardware == hardware && (shortest == 0 || c.Duration < shortest) {
			shortest = c.Duration
		}
	}
	return shortest
}

// Prepare checks a problem and prepares it for a policy. Its error is about
// input, never about an objective that cannot be met.
func Prepare(p *Problem, o Options, by Policy) (*Prepared, error) {
	o.Policy, o.CostModel = o.policy(), o.costModel()
	o, err := by.Complete(o)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	d, err := newDAG(&p.Pipeline)
	if err != nil {
		return nil, err
	}
	out := &Prepared{Pipeline: &p.Pipeline, Options: o, DAG: d, Modules: make([]*ModuleProblem, len(d.Names)), Held: p.Held}
	modules, rates := make([]ModuleProblem, len(d.Names)), p.Pipeline.Rates()
	for i, name := range d.Names {
		list, err := configs(p, p.Pipeline.Module(name), o)
		if err != nil {
			return nil, err
		}
		modules[i] = ModuleProblem{Name: name, Rate: rates[name], Configs: list}
		out.Modules[i] = &modules[i]
	}
	for i, single := range out.single() {
		out.Modules[i].Single = single
	}
	return out, nil
}

// InOrder reads budgets in the order of the DAG, and checks that they keep the
// objective.
func (p *Prepared) InOrder(b Budgets) ([]time.Duration, error) {
	list := make([]time.Duration, len(p.Modules))
	for i, m := range p.Modules {
		budget, ok := b[m.Name]
		if !ok || budget < 0 {
			return nil, fmt.Errorf("plan: the budget of module %q is missing or negative; budgets come from SplitLatency", m.Name)
		}
		list[i] = budget
	}
	if long := p.DAG.Longest(list); long > p.Pipeline.SLO {
		return nil, fmt.Errorf("plan: the budgets add up to %s along a path, more than the SLO of %s", quantity.Duration(long), quantity.Duration(p.Pipeline.SLO))
	}
	return list, nil
}

// ByName is the opposite of InOrder.
func (p *Prepared) ByName(list []time.Duration) Budgets {
	b := Budgets{}
	for i, m := range p.Modules {
		b[m.Name] = list[i]
	}
	return b
}

// Scale is the greatest weight of a machine, 1 where there is none. Weights are
// divided by it so that no price overflows a sum.
func (p *Prepared) Scale() float64 {
	scale := 0.0
	for _, m := range p.Modules {
		for _, c := range m.Configs {
			scale = math.Max(scale, c.Weight)
		}
	}
	return cmp.Or(scale, 1)
}

// free says that no machine costs anything: weights are not money then.
func (p *Prepared) free() bool {
	for _, m := range p.Modules {
		for _, c := range m.Configs {
			if c.Price != 0 {
				return false
			}
		}
	}
	return true
}

// inDeclaredOrder turns the order of the DAG into that of the declaration.
func (p *Prepared) inDeclaredOrder() []int {
	order := make([]int, 0, len(p.Modules))
	for _, m := range p.Pipeline.Modules {
		order = append(order, slices.Index(p.DAG.Names, m.Name))
	}
	return order
}
