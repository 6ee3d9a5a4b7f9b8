package workflows

import (
	"errors"
	"fmt"
	"math"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/check"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// CheckSpec finds what no plan could mend, so that it never enters history.
func CheckSpec(s scheduler.Spec) error {
	if s.Name() == "" {
		return errors.New("workflows: the spec has no service with a name")
	}
	if err := checkKind(s); err != nil {
		return fmt.Errorf("workflows: %s %q: %w", s.Kind(), s.Name(), err)
	}
	return nil
}

func checkKind(s scheduler.Spec) error {
	for _, fault := range s.Planning().Faults(s.Kind()) {
		return fmt.Errorf("%s of its plan: %s", fault.Attribute, fault.Detail)
	}
	if s.Kind() != scheduler.KindFunction && len(s.Hardware) == 0 {
		return errors.New("it has no hardware to run on; declare a hardware block")
	}
	switch s.Kind() {
	case scheduler.KindCluster:
		return checkCluster(s)
	case scheduler.KindPipeline:
		if err := factory.Suits(s.Pipeline.Dispatch); err != nil {
			return err
		}
		return plan.Problem{Pipeline: *s.Pipeline, Hardware: s.Hardware}.Check()
	case scheduler.KindPool:
		return check.Document(pipelines.Document{Hardware: s.Hardware, Pools: []pipelines.Pool{*s.Pool}}, nil)
	}
	return checkFunction(s)
}

// checkCluster checks a cluster and each of its pipelines.
func checkCluster(s scheduler.Spec) error {
	if err := factory.Suits(s.Cluster.Dispatch); err != nil {
		return err
	}
	doc := pipelines.Document{Hardware: s.Hardware, Clusters: []pipelines.Cluster{*s.Cluster}, Pipelines: s.Members}
	if len(s.Members) != len(s.Cluster.Pipelines) || len(s.Members) == 0 {
		return fmt.Errorf("it names %d pipelines and %d of them are declared; apply the files that declare them together with it", len(s.Cluster.Pipelines), len(s.Members))
	}
	if d := s.Cluster.Devices; d.Min < 0 || d.Max > 0 && d.Min > d.Max {
		return fmt.Errorf("the least number of devices, %d, is above the most, %d", d.Min, d.Max)
	}
	if doc.HardwareNamed(s.Cluster.Hardware).Name == "" {
		return fmt.Errorf("no hardware block declares %q", s.Cluster.Hardware)
	}
	for _, p := range s.Members {
		if err := (plan.Problem{Pipeline: p, Hardware: s.Hardware}).Check(); err != nil {
			return fmt.Errorf("pipeline %q: %w", p.Name, err)
		}
	}
	return nil
}

func checkFunction(s scheduler.Spec) error {
	if s.Provider == nil || s.Provider.URL == "" {
		return fmt.Errorf("provider %q has no url, so that it can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\"", s.Function.Provider)
	}
	return functions.Problem{Function: *s.Function, Provider: *s.Provider}.Check()
}

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
