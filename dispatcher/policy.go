package dispatcher

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// marginShare is the part of a request's time at a module that Options.Margin
// may take at most.
const marginShare = 10

// schedule fills in what the plan says of time.
func (g *Generation) schedule() {
	budget, keep := map[string]time.Duration{}, map[string]timing.Kept{}
	for i := range g.Nodes {
		module := g.Nodes[i].Module
		m := planned(&g.Deployment, module)
		if m != nil {
			budget[module] = m.Budget
		}
		keep[module] = timing.Keep(g.Deployment.Pipeline.Dispatch, m, g.groups(module))
	}
	g.Schedule(budget, keep)
}

// madePolicy is a policy with what it was made from.
type madePolicy struct {
	dispatch.Policy
	spec factory.Spec
}

// makePolicies makes a policy for every node, in their order.
func (g *Generation) makePolicies(o *Options) error {
	g.policies = make([]madePolicy, len(g.Nodes))
	for i := range g.policies {
		p := &g.policies[i]
		var err error
		if p.spec, err = g.spec(o, i); err == nil {
			p.Policy, err = factory.New(p.spec)
		}
		if err != nil {
			return fmt.Errorf("gateway: pipeline %q, module %q: %w", g.Deployment.Pipeline.Name, g.Nodes[i].Module, err)
		}
	}
	return nil
}

// spec is the policy that the deployment names, for one of its modules.
func (g *Generation) spec(o *Options, index int) (factory.Spec, error) {
	d, n := &g.Deployment, &g.Nodes[index]
	if d.Function != nil {
		return factory.Spec{Grouped: groupedOptions(d.Function, o)}, nil
	}
	if d.Pool != nil {
		return pool.Dispatcher(*d, o.MaxQueue)
	}
	c := factory.Module{
		Policy: d.Pipeline.Dispatch, Groups: g.groups(n.Module), SLO: d.Pipeline.SLO - n.Offset - n.Keep.Pressed,
		MaxQueue: o.MaxQueue, Early: timing.Early(!o.Patient, &d.Pipeline, &d.Plan),
	}
	c.Margin = min(max(0, o.Margin), c.SLO/marginShare)
	if m := planned(d, n.Module); m != nil {
		c.Rate = m.Rate
	}
	return c.Spec()
}

// groupedOptions is the configuration of policy grouped. A batch leaves a margin
// before the plan's timeout, for timers that are late and for the network. A request
// is given up when not even a call of its own would be in time, on average: the
// plan's longest time of a full batch would give up what leaves at its timeout
// whenever a timer is late.
func groupedOptions(d *functions.Deployment, o *Options) *grouped.Options {
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

// groups are the groups of a module by the index that slots refer to, with
// durations by batch size from the profile. Without a plan for the module the slots
// say what there is.
func (g *Generation) groups(module string) []tc.Group {
	var all []tc.Group
	d := &g.Deployment
	if m := planned(d, module); m != nil {
		all = timing.Groups(d.Pipeline.Module(module), m)
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
