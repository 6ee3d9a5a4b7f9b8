package dispatcher

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// policyLimits are the limits of a dispatcher; see dispatcher.Options.
type policyLimits struct {
	Own                    factory.Policies
	MaxQueue, MaxCalls     int
	Patient                bool
	Margin, FunctionMargin time.Duration
}

// marginShare is the part of a request's time at a module that policyLimits.Margin
// may take at most.
const marginShare = 10

// scheduleGraph fills the graph in with what the plan states of time.
func scheduleGraph(d *placement.Deployment, graph *flow.Graph, own factory.Policies) {
	budget, keep := map[string]time.Duration{}, map[string]flow.KeptWindows{}
	for i := range graph.Nodes {
		module := graph.Nodes[i].Module
		m := planned(d, module)
		if m != nil {
			budget[module] = m.Budget
		}
		keep[module] = flow.KeepWindows(own.Groups(d.Pipeline.Dispatch), m, policyGroups(d, module))
	}
	graph.Schedule(budget, keep)
}

// builtPolicy is a policy with what it was made from.
type builtPolicy struct {
	dispatch.Policy
	Spec factory.Spec
}

// buildPolicies makes a policy for every node of a graph that is scheduled, in their order.
func buildPolicies(d *placement.Deployment, graph *flow.Graph, l policyLimits) ([]builtPolicy, error) {
	all := make([]builtPolicy, len(graph.Nodes))
	for i := range all {
		n := &graph.Nodes[i]
		s, err := spec(d, n, &l)
		if err == nil {
			all[i].Spec = s
			all[i].Policy, err = l.Own.New(s)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: pipeline %q, module %q: %w", d.Pipeline.Name, n.Module, err)
		}
	}
	return all, nil
}

// spec is the policy that the deployment names, for one of its modules.
func spec(d *placement.Deployment, n *flow.Node, o *policyLimits) (factory.Spec, error) {
	if d.Function != nil {
		return factory.Spec{Grouped: groupedOptions(d.Function, o)}, nil
	}
	if d.Pool != nil {
		return pool.Dispatcher(*d, o.MaxQueue)
	}
	c := factory.Module{
		Policy: d.Pipeline.Dispatch, Groups: policyGroups(d, n.Module), SLO: d.Pipeline.SLO - n.Offset - n.Keep.Planned,
		MaxQueue: o.MaxQueue, Early: flow.ModuleEarlyStart(!o.Patient, &d.Pipeline, &d.Plan, planned(d, n.Module)), Below: n.Below(),
	}
	c.Margin = min(max(0, o.Margin), c.SLO/marginShare)
	if m := planned(d, n.Module); m != nil {
		c.Rate = m.Rate
	}
	return o.Own.Spec(c)
}

// buildCluster makes the one policy of a part of a cluster, and schedules the graphs of its
// members, which are in their order. A request's class is the place of its module among
// all of them.
func buildCluster(d *placement.Deployment, graphs []*flow.Graph, l policyLimits) (builtPolicy, error) {
	part := &d.Cluster.Parts[0]
	o := shared.Options{MaxQueue: l.MaxQueue, Margin: max(0, l.Margin)}
	for i := range part.Members {
		m := &part.Members[i]
		models, err := factory.SharedModels(&m.Pipeline, graphs[i], m.Budgets, d.Cluster.Hardware)
		if err != nil {
			return builtPolicy{}, fmt.Errorf("gateway: cluster %q: %w", part.Name, err)
		}
		for _, model := range models {
			o.Margin = min(o.Margin, model.SLO/marginShare)
		}
		o.Models = append(o.Models, models...)
	}
	s := factory.Spec{Shared: &factory.Shared{Name: d.Cluster.Dispatch, Options: o}}
	p, err := l.Own.New(s)
	if err != nil {
		return builtPolicy{}, fmt.Errorf("gateway: cluster %q: %w", part.Name, err)
	}
	return builtPolicy{Policy: p, Spec: s}, nil
}

// groupedOptions is the configuration of policy grouped. A batch leaves a margin
// before the plan's timeout, for timers that are late and for the network. A request
// is given up when not even a call of its own would be in time, on average: the
// plan's longest time of a full batch would give up what leaves at its timeout
// whenever a timer is late.
func groupedOptions(d *functions.Deployment, o *policyLimits) *grouped.Options {
	problem := functions.Problem{Function: d.Function, Provider: d.Provider}
	c := d.Plan.Dispatch()
	c.MaxQueue = o.MaxCalls
	for i := range c.Groups {
		group := &c.Groups[i]
		single, _ := problem.Latency(d.Plan.Groups[i].Offer, 1)
		group.Duration = min(group.Duration, time.Duration(single*float64(time.Second)))
		for j := range group.Applications {
			group.Applications[j].Timeout = max(0, group.Applications[j].Timeout-o.FunctionMargin)
		}
	}
	return &c
}

func planned(d *placement.Deployment, module string) *plan.Module {
	for i := range d.Plan.Modules {
		if d.Plan.Modules[i].Name == module {
			return &d.Plan.Modules[i]
		}
	}
	return nil
}

// policyGroups are the groups of a module by the index that slots refer to, with
// durations by batch size from the profile. Without a plan for the module they come from the
// slots.
func policyGroups(d *placement.Deployment, module string) []tc.Group {
	var all []tc.Group
	if m := planned(d, module); m != nil {
		declared := plan.Transferred(d.Pipeline, d.Plan.Transfer)
		all = flow.DispatchGroups(declared.Module(module), m)
	}
	for _, s := range d.Slots {
		if s.Module != module {
			continue
		}
		for len(all) <= s.Group {
			all = append(all, tc.Group{Batch: s.Batch, Window: s.Window, Duration: s.Duration})
		}
	}
	return all
}
