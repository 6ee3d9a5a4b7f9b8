package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// What is measured of a cluster's modules is kept in State.Points under the names that
// placement.Resident gives them, since modules of several pipelines may have one name.

// profileMembers measures the modules of a cluster that have no profile, pipeline by
// pipeline.
func (s *service) profileMembers(ctx workflow.Context, spec scheduler.Spec) error {
	for _, p := range s.profiledMembers(spec).Members {
		if len(lackingProfile(p)) == 0 {
			continue
		}
		ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:    profileID(placement.Resident(s.Name, p.Name), s.Attempts+1),
			StaticSummary: fmt.Sprintf("profile the modules of %s for %s", p.Name, s.Name),
		})
		request := ProfileRequest{Service: ServiceID(s.Kind, s.Name), Pipeline: p, Hardware: onlyHardware(spec), Again: s.Again}
		var reply ProfileReply
		if err := workflow.ExecuteChildWorkflow(ctx, TypeProfile, request).Get(ctx, &reply); err != nil {
			return err
		}
		for _, module := range workflow.DeterministicKeys(reply.Points) {
			s.Points[placement.Resident(p.Name, module)] = reply.Points[module]
		}
	}
	s.Profile, s.Again = false, false
	return nil
}

// onlyHardware is the declared hardware of a cluster's devices.
func onlyHardware(spec scheduler.Spec) []pipelines.Hardware {
	return slices.DeleteFunc(slices.Clone(spec.Hardware), func(h pipelines.Hardware) bool { return h.Name != spec.Cluster.Hardware })
}

// profiledMembers is profiled of a cluster.
func (s *service) profiledMembers(spec scheduler.Spec) scheduler.Spec {
	spec.Members = slices.Clone(spec.Members)
	for i := range spec.Members {
		p := &spec.Members[i]
		p.Modules = slices.Clone(p.Modules)
		for k := range p.Modules {
			if m := &p.Modules[k]; len(m.Profile.Points) == 0 {
				m.Profile.Points = s.Points[placement.Resident(p.Name, m.Name)]
			}
		}
	}
	return spec
}

// lackingMembers are the pipelines of a cluster with modules that declare no profile.
func (s *service) lackingMembers() (names []string) {
	for _, p := range s.Spec.Members {
		if len(lackingProfile(p)) > 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// sizeMeasured looks whether the cluster has too few or too many devices, by measures of
// nothing but what serves now. Where its declaration leaves that open it is planned anew
// with as many as are advised; what they are not enough for, or cannot be had, is told.
func (s *service) sizeMeasured(m autoscale.Measures) {
	d := &s.Detectors
	if m.Generation != s.Serving.Generation || m.From.Before(d.Cluster.Since) {
		return
	}
	devices := s.Serving.Plan.Cluster.Devices
	needed, allowed := d.Cluster.Compare(m.OfCluster(devices))
	switch {
	case needed.Change != 0:
		d.Scale = &needed
	case needed.Bad <= size.DefaultBad:
		d.Scale = nil
	}
	wanted := devices + allowed.Change
	if allowed.Change == 0 || s.Settings.Fixed || wanted == s.Spec.Devices {
		return
	}
	s.Spec.Devices = wanted
	s.replan("the load changed: " + allowed.Describe())
}
