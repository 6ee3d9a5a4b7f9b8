package scheduler

import (
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// functionService is a model at a provider that several applications share.
type functionService struct{ noService }

func (functionService) kind() Kind                     { return KindFunction }
func (s functionService) name() string                 { return s.Function.Name }
func (s functionService) planning() pipelines.Planning { return s.Function.Plan }
func (s functionService) rate(Plan) float64            { return s.Function.Rate() }

// FunctionProblem is the problem of a function.
func (s Spec) FunctionProblem() functions.Problem {
	p := functions.Problem{Function: *s.Function}
	if s.Provider != nil {
		p.Provider = *s.Provider
	}
	return p
}

func (s functionService) solve(_ []Spec, _ Fleet, l Limits) []Plan {
	policy := s.Function.Plan.Policy
	p, err := functions.Solve(s.FunctionProblem(), functions.Options{Policy: policy, Clock: l.Clock, Stop: l.ended()})
	if err != nil {
		p = functions.Plan{Function: s.Function.Name, Policy: policy, Status: functions.Infeasible, Reason: strings.TrimPrefix(err.Error(), "functions: ")}
	}
	return []Plan{{Function: &p}}
}

func (s functionService) deploy(d *placement.Deployment, p Plan) {
	d.Pipeline.Name = s.Function.Name
	d.Function = &functions.Deployment{Generation: d.Generation, Function: *s.Function, Plan: *p.Function}
	if s.Provider != nil {
		d.Function.Provider = *s.Provider
	}
}
