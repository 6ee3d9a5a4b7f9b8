package plan

import (
	"errors"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Headroom: a plan is made for the objective less the share that the pipeline
// keeps for what machines do besides (pipelines.Pipeline.Kept). Its budgets add
// up to that; the deadline of requests stays the objective. Every entry of the
// package plans the tightened problem and writes the objective as declared.

// tightened is the problem as it is planned: without headroom, for what it
// leaves of the objective.
func (p Problem) tightened() Problem {
	p.Pipeline = p.Pipeline.Planned()
	return p
}

// keep says in the plan of a tightened problem what it keeps.
func (p *Plan) keep(declared *Problem) {
	p.Headroom = declared.Pipeline.SLO - declared.tightened().Pipeline.SLO
	p.SLO = declared.Pipeline.SLO
	if p.Headroom > 0 && p.Status == Infeasible && p.Reason != "" {
		p.Reason += declared.less()
	}
}

// less explains an objective that is shorter than the declared one.
func (p *Problem) less() string {
	kept := p.Pipeline.SLO - p.tightened().Pipeline.SLO
	if kept <= 0 {
		return ""
	}
	return " (the SLO of " + quantity.Duration(p.Pipeline.SLO) + " less a headroom of " + quantity.Duration(kept) + ")"
}

// explained adds that to a reason.
func (p *Problem) explained(err error) error {
	var why *InfeasibleError
	if less := p.less(); less != "" && errors.As(err, &why) {
		told := *why
		told.Reason, told.SLO = told.Reason+less, p.Pipeline.SLO
		return &told
	}
	return err
}

// Relaxed is the problem without headroom: what it would cost otherwise tells
// what the margin costs.
func (p Problem) Relaxed() Problem {
	none := 0.0
	p.Pipeline.Headroom = &none
	return p
}
