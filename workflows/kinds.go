package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// kind is what services of each kind do in their own way.
type kind interface {
	// fault is why a spec, whose planning and hardware are known, must not be planned.
	fault(s scheduler.Spec) error

	// planSummary is what planning has to do, in the UI.
	planSummary(s scheduler.Spec) string

	// profiles reports what of a service is known without measuring.
	profiles() string

	// fixedRate reports why the service has no rate to change; empty where it has one.
	fixedRate() string

	// reset begins to compare with what serves now.
	reset(d *Detectors, before Detectors, o Settings, serving *Deployed, now time.Time)

	// measured lets the detectors look at what the gateway saw.
	measured(ctx workflow.Context, s *service, m autoscale.Measures)
}

func kindOf(k scheduler.Kind) kind {
	switch k {
	case scheduler.KindPool:
		return poolKind{}
	case scheduler.KindFunction:
		return functionKind{}
	case scheduler.KindCluster:
		return clusterKind{}
	}
	return pipelineKind{}
}

// pipelineKind is of pipelines: its rate, its pace, its fan-out and its arrivals may drift.
type pipelineKind struct{}

func (pipelineKind) fault(s scheduler.Spec) error {
	if err := factory.Suits(scheduler.KindPipeline, s.Pipeline.Dispatch); err != nil {
		return err
	}
	return plan.Problem{Pipeline: *s.Pipeline, Hardware: s.Hardware}.Check()
}

func (pipelineKind) planSummary(s scheduler.Spec) string {
	return fmt.Sprintf("split %v among %d modules at %s/s, choose batches, hardware and machines", s.SLO(), len(s.Pipeline.Modules), quantity.Number(s.Pipeline.Rate))
}

func (pipelineKind) profiles() string  { return "its modules have profiles" }
func (pipelineKind) fixedRate() string { return "" }

func (pipelineKind) reset(d *Detectors, before Detectors, o Settings, serving *Deployed, now time.Time) {
	d.Rate = rateDrift(o, serving, before.Rate.Base(serving.Spec.Pipeline.Rate), now)
	d.Rise = autoscale.Rise{Planned: serving.Spec.Pipeline.Rate, Last: now}
	d.Arrivals.Reset(serving.Spec.Pipeline, now)
	d.Fanouts.Reset(now)
	d.Pace.Reset(now)
	d.Transfers.Reset(serving.Plan.Pipeline.Transfer, now)
}

func (pipelineKind) measured(ctx workflow.Context, s *service, m autoscale.Measures) {
	s.Answered.Observe(m, s.Serving.Plan.Pipeline, s.Serving.Generation)
	s.Detectors.Arrivals.Observe(m)
	s.Detectors.Fanouts.Observe(m, s.Serving.Spec.Pipeline)
	s.Detectors.Promise.Observe(m, s.Serving.Spec.Pipeline, s.Serving.Plan.Pipeline)
	switch changed := s.paceMeasured(ctx, m); {
	case s.Settings.Fixed:
		s.Detectors.Rate.ObserveLoad(m) // to be reported
	case !changed && !s.transfersMeasured(m) && !s.arrivalsMeasured() && !s.fanoutMeasured(ctx, m):
		s.rateMeasured(ctx, m)
	}
}

// poolKind is of pools: their pace and the mix of their queries may drift.
type poolKind struct{}

func (poolKind) fault(s scheduler.Spec) error {
	return pipelines.CheckElsewhere(pipelines.Document{Hardware: s.Hardware, Pools: []pipelines.Pool{*s.Pool}})
}

func (poolKind) planSummary(s scheduler.Spec) string {
	return fmt.Sprintf("choose instances for %s an hour and queries of %.4g items on average", quantity.Money(s.Pool.Budget), s.Pool.Mix().Mean())
}

func (poolKind) profiles() string { return "its profile is" }

func (poolKind) fixedRate() string {
	return "has no rate to change: it serves what its budget pays for; apply it with another budget"
}

func (poolKind) reset(d *Detectors, _ Detectors, o Settings, serving *Deployed, now time.Time) {
	d.Pace.Reset(now)
	d.Sizes = autoscale.NewMixDrift(nil, o.Mix)
	d.Sizes.Reset(serving.Spec.Pool.Mix(), now)
}

func (poolKind) measured(ctx workflow.Context, s *service, m autoscale.Measures) {
	if s.Serving.Spec.Pool.Learns() {
		s.learned(m)
	} else if !s.paceMeasured(ctx, m) && !s.Settings.Fixed {
		s.sizesMeasured(m)
	}
}

// functionKind is of functions: the rates of their applications may drift.
type functionKind struct{}

func (functionKind) fault(s scheduler.Spec) error {
	if s.Provider == nil || s.Provider.URL == "" {
		return fmt.Errorf("provider %q has no url, so that it can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\"", s.Function.Provider)
	}
	return functions.Problem{Function: *s.Function, Provider: *s.Provider}.Check()
}

func (functionKind) planSummary(s scheduler.Spec) string {
	return fmt.Sprintf("group %d applications at %s/s", len(s.Function.Applications), quantity.Number(s.Function.Rate()))
}

func (functionKind) profiles() string { return "its profile is" }

func (functionKind) fixedRate() string {
	return "has no rate of its own: its applications have; apply it with other rates"
}

func (functionKind) reset(d *Detectors, _ Detectors, o Settings, serving *Deployed, now time.Time) {
	for _, a := range serving.Spec.Function.Applications {
		d.Applications = append(d.Applications, ApplicationDrift{a.Name, rateDrift(o, serving, a.Rate, now)})
	}
}

func (functionKind) measured(_ workflow.Context, s *service, m autoscale.Measures) {
	if !s.Settings.Fixed && m.Function != nil && m.Generation == s.Serving.Generation {
		s.applicationsMeasured(*m.Function)
	}
}

// clusterKind is of clusters: how many devices they need is measured.
type clusterKind struct{}

// fault looks at the cluster and each of its pipelines.
func (clusterKind) fault(s scheduler.Spec) error {
	if err := factory.Suits(scheduler.KindCluster, s.Cluster.Dispatch); err != nil {
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

func (clusterKind) planSummary(s scheduler.Spec) string {
	return fmt.Sprintf("divide %d objectives at %s/s, choose devices and sub-clusters", len(s.Members), quantity.Number(s.Rate(scheduler.Plan{})))
}

func (clusterKind) profiles() string { return "its modules have profiles" }

func (clusterKind) fixedRate() string {
	return "has no rate of its own: its pipelines have; apply it with other rates"
}

func (clusterKind) reset(d *Detectors, before Detectors, _ Settings, serving *Deployed, now time.Time) {
	bounds := serving.Spec.Cluster.Devices
	d.Cluster = size.Cluster{Options: size.Options{Min: bounds.Min, Max: bounds.Max}, Since: now, Waves: before.Cluster.Waves}
}

func (clusterKind) measured(ctx workflow.Context, s *service, m autoscale.Measures) {
	s.sizeMeasured(ctx, m)
}
