package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// InfeasibleError says why no plan keeps the objective.
type InfeasibleError struct {
	Pipeline string
	Path     []string      // the path that needs too much; empty when Reason is about something else
	Needs    time.Duration // what the path needs at the least
	SLO      time.Duration
	Reason   string

	// Unfinished says that a search was ended before it found a plan: there may be one.
	Unfinished bool
}

// Error is the reason, with pipeline and path.
func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("plan: pipeline %q: %s", e.Pipeline, e.Reason)
}

// CheckPath is an *InfeasibleError when some path is too long even where every
// module answers in its least time; within says that a path may take the whole
// objective, because these times hold what collecting a batch takes.
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

// Infeasible is the plan that says why there is none.
func (o Options) Infeasible(p *Problem, err error) Plan {
	plan := Plan{Pipeline: p.Pipeline.Name, Policy: o.policy(), CostModel: o.costModel(), Status: Infeasible, Reason: err.Error(), SLO: p.Pipeline.SLO}
	var why *InfeasibleError
	if errors.As(err, &why) {
		plan.Reason, plan.CutShort = why.Reason, why.Unfinished
	}
	return plan
}
