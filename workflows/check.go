package workflows

import (
	"fmt"
	"math"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/scheduler"
)

func (s *service) checkRescale(_ workflow.Context, r RescaleRequest) error {
	if err := s.accepts(r.Expect); err != nil {
		return err
	}
	switch {
	case s.Kind == scheduler.KindPool:
		return s.errorf("has no rate to change: it serves what its budget pays for; apply it with another budget")
	case s.Kind == scheduler.KindFunction:
		return s.errorf("has no rate of its own: its applications have; apply it with other rates")
	case s.Kind == scheduler.KindCluster:
		return s.errorf("has no rate of its own: its pipelines have; apply it with other rates")
	case s.Generation == 0:
		return s.errorf("has no spec yet; apply one first")
	case !(r.Rate > 0) || math.IsInf(r.Rate, 1):
		return fmt.Errorf("workflows: the rate is %v; it must be a number of requests per second above zero", r.Rate)
	}
	return nil
}

func (s *service) checkRemeasure(workflow.Context, string) error {
	if err := s.accepts(0); err != nil {
		return err
	}
	if len(lacking(s.Spec))+len(s.lackingMembers()) == 0 {
		what := "its modules have profiles"
		if s.Kind == scheduler.KindPool || s.Kind == scheduler.KindFunction {
			what = "its profile is"
		}
		return s.errorf("has nothing to measure: %s on file", what)
	}
	return nil
}
