package flow

import (
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// AdmissionService is what admission control must know of a planned pipeline. modules
// are those that run, each after all that feed it; devices says on which devices
// the executors of a group are. A module that the plan does not know counts as
// no work.
func AdmissionService(declared *pipelines.Pipeline, p *plan.Plan, modules []string, devices func(module string, group int) []int) admission.Service {
	s := admission.Service{SLO: declared.SLO, Rate: declared.Rate, Promised: EarlyStart(true, declared, p) == tc.EarlyWithinPromise}
	one := *declared
	if one.Rate <= 0 {
		one.Rate = 1
	}
	rates := one.Rates()
	for _, name := range modules {
		m := admission.Module{Items: rates[name] / one.Rate}
		for _, up := range declared.Upstream(name) {
			if at := slices.Index(modules, up); at >= 0 {
				s.Modules[at].Down = append(s.Modules[at].Down, len(s.Modules))
				m.Feeders++
			}
		}
		if k := slices.IndexFunc(p.Modules, func(m plan.Module) bool { return m.Name == name }); k >= 0 {
			m.Groups = admissionGroups(declared, &p.Modules[k], devices)
		}
		s.Modules = append(s.Modules, m)
	}
	return s
}

// admissionGroups gives each group its part of the module's items: by the rates
// of the plan, or alike where it states none, among groups that have executors.
func admissionGroups(declared *pipelines.Pipeline, m *plan.Module, devices func(string, int) []int) []admission.Group {
	var groups []admission.Group
	sum, staffed := 0.0, 0.0
	for i, g := range DispatchGroups(declared.Module(m.Name), m) {
		on := admission.Group{Durations: g.Table(), Devices: devices(m.Name, i)}
		if len(on.Devices) > 0 {
			on.Share = m.Groups[i].Rate
			staffed++
		}
		sum += on.Share
		groups = append(groups, on)
	}
	for i := range groups {
		switch {
		case sum > 0:
			groups[i].Share /= sum
		case len(groups[i].Devices) > 0:
			groups[i].Share = 1 / staffed
		}
	}
	return groups
}
