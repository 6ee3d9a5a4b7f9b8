package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Solve plans one pipeline by a policy. It always returns a plan: when the
// objective cannot be met, or the problem or the options make no sense, the plan
// has status Infeasible and reports why in Reason.
func Solve(p Problem, o Options, by Policy) Plan {
	watch := o.stopwatch()
	d := newDriver(o, by)
	out := d.solve(p.tightened())
	out.keep(&p)
	out.CutShort = d.options.cutShort()
	out.SolveTime = watch()
	return out
}

// SolveTogether plans several pipelines with one search, which is given them
// without their headroom and is false where they must be planned one by one.
func SolveTogether(problems []Problem, o Options, search func([]Problem, Options) ([]Plan, bool)) ([]Plan, bool) {
	watch := o.stopwatch()
	tight := make([]Problem, len(problems))
	for i, p := range problems {
		tight[i] = p.tightened()
	}
	o = o.started()
	plans, ok := search(tight, o)
	if !ok {
		return nil, false
	}
	spent := watch()
	for i := range plans {
		plans[i].keep(&problems[i])
		plans[i].SolveTime, plans[i].CutShort = spent, o.cutShort()
	}
	return plans, true
}

// SplitLatency divides the SLO among the modules. The budget of a pipeline's only
// module is the SLO, less the headroom. An objective that cannot be met is an
// *InfeasibleError.
func SplitLatency(p Problem, o Options, by Policy) (Budgets, error) {
	budgets, err := newDriver(o, by).splitLatency(p.tightened())
	return budgets, p.explained(err)
}

// ScheduleModules chooses groups for every module within its budget, and
// certifies the plan with the lower bound of the policy. What is left of the SLO
// is spread over the modules' budgets in proportion. A module that cannot keep its
// budget is an *InfeasibleError.
func ScheduleModules(p Problem, o Options, b Budgets, by Policy) (Plan, error) {
	watch := o.stopwatch()
	d := newDriver(o, by)
	out, err := d.scheduleModules(p.tightened(), b)
	if err != nil {
		return out, p.explained(err)
	}
	out.keep(&p)
	out.CutShort = d.options.cutShort()
	out.SolveTime = watch()
	return out, nil
}

// driver plans by one policy, with regard to how many devices exist.
type driver struct {
	options Options
	by      Policy
}

func newDriver(o Options, by Policy) driver { return driver{o.started(), by} }

func (d driver) prepare(p *Problem) (*Prepared, error) { return Prepare(p, d.options, d.by) }

func (d driver) solve(p Problem) Plan {
	out, err := d.attempt(p)
	if err != nil {
		return d.options.Infeasible(&p, err)
	}
	return out
}

// attempt plans with one search where no devices are limited; otherwise the bound has a
// search of its own, without limits.
func (d driver) attempt(p Problem) (Plan, error) {
	if !p.Limited() {
		return d.unlimited(&p)
	}
	budgets, err := d.splitLatency(p)
	if err != nil {
		return Plan{}, err
	}
	return d.scheduleModules(p, budgets)
}

func (d driver) unlimited(p *Problem) (Plan, error) {
	ready, err := d.prepare(p)
	if err != nil {
		return Plan{}, err
	}
	return d.by.Solve(ready)
}

func (d driver) splitLatency(p Problem) (Budgets, error) {
	left, err := d.affordable(p)
	if err != nil {
		return nil, err
	}
	return d.split(left)
}

func (d driver) split(p Problem) (Budgets, error) {
	ready, err := d.prepare(&p)
	if err != nil {
		return nil, err
	}
	return d.by.Split(ready)
}

func (d driver) schedule(p Problem, b Budgets) (Plan, error) {
	ready, err := d.prepare(&p)
	if err != nil {
		return Plan{}, err
	}
	return d.by.Schedule(ready, b)
}

func (d driver) scheduleModules(p Problem, b Budgets) (Plan, error) {
	left := p
	if p.Limited() {
		// As the split was found: it counts on who does without which hardware.
		if found, err := d.affordable(p); err == nil {
			left = found
		}
		if out, err := d.schedule(left, b); err != nil || len(shortages(&left, &out)) > 0 {
			left = p
		}
	}
	var first *Plan
	for {
		out, err := d.schedule(left, b)
		if err != nil && first != nil {
			err = d.tooFew(p, first)
		}
		if err != nil {
			return Plan{}, err
		}
		short := shortages(&left, &out)
		if len(short) == 0 {
			return out, d.certify(p, &out)
		}
		if first == nil {
			first = &out
		}
		left = withoutKind(left, short, func(p Problem) (Plan, error) { return d.schedule(p, b) })
	}
}

// certify bounds a plan whose budgets came from elsewhere.
func (d driver) certify(p Problem, out *Plan) error {
	if d.options.NoBound {
		return nil
	}
	ready, err := d.prepare(&p)
	if err != nil {
		return err
	}
	d.by.Certify(ready, out)
	return nil
}

func (o Options) stopwatch() func() time.Duration {
	if o.Clock == nil {
		return func() time.Duration { return 0 }
	}
	start := o.Clock()
	return func() time.Duration { return max(0, o.Clock()-start) }
}

// started notes that the search begins now. What it calls goes on with the same
// clock, however often it solves a part again.
func (o Options) started() Options {
	if o.until == nil {
		stop, limit, watch := o.Stop, o.TimeLimit, func() time.Duration { return 0 }
		if limit > 0 {
			watch = o.stopwatch()
		}
		ended := false
		o.until = func() bool {
			ended = ended || stop != nil && stop() || limit > 0 && watch() >= limit
			return ended
		}
		o.ended = &ended
	}
	return o
}

// cutShort reports that a search was ended by Stop or TimeLimit.
func (o Options) cutShort() bool { return o.ended != nil && *o.ended }

// Stopped reports that the search must end with what it has.
func (o Options) Stopped() bool { return o.until != nil && o.until() }

// InfeasibleError states why no plan keeps the objective.
type InfeasibleError struct {
	Pipeline string
	Path     []string      // the path that needs too much; empty when Reason is about something else
	Needs    time.Duration // what the path needs at the least
	SLO      time.Duration
	Reason   string

	// Unfinished means that a search was ended before it found a plan: there may be one.
	Unfinished bool
}

// Error is the reason, with pipeline and path.
func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("plan: pipeline %q: %s", e.Pipeline, e.Reason)
}

// CheckPath is an *InfeasibleError when some path is too long even where every
// module answers in its least time; within means that a path may take the whole objective,
// because these times include the collecting of a batch.
func (p *Prepared) CheckPath(fastest []time.Duration, within bool) error {
	need := map[string]time.Duration{}
	for i, m := range p.Modules {
		need[m.Name] = fastest[i]
	}
	path, total, err := p.Pipeline.LongestPath(func(name string) time.Duration { return need[name] })
	if err != nil {
		return err
	}
	slo := p.Pipeline.SLO
	if total < slo || within && total == slo || total == 0 {
		return nil
	}
	return &InfeasibleError{Pipeline: p.Pipeline.Name, Path: path, Needs: total, SLO: slo, Reason: tooSlow(path, total, slo)}
}

func tooSlow(path []string, needs, slo time.Duration) string {
	who := "module " + path[0]
	if len(path) > 1 {
		who = "the fastest path"
		for i, name := range path {
			if i > 0 {
				who += " ->"
			}
			who += " " + name
		}
	}
	if needs == slo {
		return fmt.Sprintf("%s needs %s, which leaves nothing of the SLO of %s to collect a batch; raise the SLO", who, quantity.Duration(needs), quantity.Duration(slo))
	}
	return fmt.Sprintf("%s needs %s, %s more than the SLO of %s", who, quantity.Duration(needs), quantity.Duration(needs-slo), quantity.Duration(slo))
}

// NoSplit is the error where no split of the objective does; hint is a further
// reason, or empty.
func (p *Prepared) NoSplit(hint string) error {
	reason := fmt.Sprintf("no split of the SLO of %s lets every module collect its batches", quantity.Duration(p.Pipeline.SLO))
	return &InfeasibleError{Pipeline: p.Pipeline.Name, SLO: p.Pipeline.SLO, Reason: reason + hint + "; raise the SLO"}
}

// NoSchedule is the error where a module cannot be served within a budget; hint
// is a further reason, or empty.
func (p *Prepared) NoSchedule(i int, budget time.Duration, hint string) error {
	m := p.Modules[i]
	reason := fmt.Sprintf("module %s cannot serve %s requests per second within its budget of %s", m.Name, quantity.Number(m.Rate), quantity.Duration(budget))
	return &InfeasibleError{Pipeline: p.Pipeline.Name, Path: []string{m.Name}, SLO: p.Pipeline.SLO, Reason: reason + hint}
}

// Infeasible is an infeasible plan with err as its reason.
func (o Options) Infeasible(p *Problem, err error) Plan {
	plan := Plan{Pipeline: p.Pipeline.Name, Policy: o.policy(), CostModel: o.costModel(), Status: Infeasible, Reason: err.Error(), SLO: p.Pipeline.SLO}
	var why *InfeasibleError
	if errors.As(err, &why) {
		plan.Reason, plan.CutShort = why.Reason, why.Unfinished
	}
	return plan
}
