package workflows

import (
	"errors"
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// SpecFaults says what is wrong with a spec; nil where it may be planned.
func SpecFaults(s scheduler.Spec) error {
	if s.Name() == "" {
		return errors.New("faults: the spec has no service with a name")
	}
	if err := ofKind(s); err != nil {
		return fmt.Errorf("%s %q: %w", s.Kind(), s.Name(), err)
	}
	return nil
}

func ofKind(s scheduler.Spec) error {
	for _, fault := range s.Planning().Faults(s.Kind()) {
		return fmt.Errorf("%s of its plan: %s", fault.Attribute, fault.Detail)
	}
	if s.Kind() != scheduler.KindFunction && len(s.Hardware) == 0 {
		return errors.New("it has no hardware to run on; declare a hardware block")
	}
	switch s.Kind() {
	case scheduler.KindCluster:
		return ofCluster(s)
	case scheduler.KindPipeline:
		if err := factory.Suits(s.Pipeline.Dispatch); err != nil {
			return err
		}
		return plan.Problem{Pipeline: *s.Pipeline, Hardware: s.Hardware}.Check()
	case scheduler.KindPool:
		return pipelines.CheckElsewhere(pipelines.Document{Hardware: s.Hardware, Pools: []pipelines.Pool{*s.Pool}})
	}
	return ofFunction(s)
}

// ofCluster looks at a cluster and each of its pipelines.
func ofCluster(s scheduler.Spec) error {
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

func ofFunction(s scheduler.Spec) error {
	if s.Provider == nil || s.Provider.URL == "" {
		return fmt.Errorf("provider %q has no url, so that it can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\"", s.Function.Provider)
	}
	return functions.Problem{Function: *s.Function, Provider: *s.Provider}.Check()
}
