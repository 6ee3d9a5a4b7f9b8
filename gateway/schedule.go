package gateway

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// marginShare is the part of a request's time at a module that Options.Margin
// may take at most.
const marginShare = 10

// schedule fills in what the plan says of time.
func (g *graph) schedule() {
	budget, keep := map[string]time.Duration{}, map[string]timing.Kept{}
	for _, n := range g.nodes {
		m := planned(&g.deployment, n.Module)
		if m != nil {
			budget[n.Module] = m.Budget
		}
		keep[n.Module] = timing.Keep(g.deployment.Pipeline.Dispatch, m, TCOptions(g.deployment, n.Module, 0).Groups)
	}
	g.Schedule(budget, keep)
}

// madePolicy is a policy with what it was made from.
type madePolicy struct {
	dispatch.Policy
	spec factory.Spec
}

// policies makes a policy for every node, in their order.
func (g *Gateway) policies(gr *graph) ([]madePolicy, error) {
	all := make([]madePolicy, len(gr.nodes))
	for i, n := range gr.nodes {
		var err error
		if all[i].spec, err = g.spec(gr, n); err == nil {
			all[i].Policy, err = factory.New(all[i].spec)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: pipeline %q, module %q: %w", gr.deployment.Pipeline.Name, n.Module, err)
		}
	}
	return all, nil
}

// spec is the policy that the pipeline names, for one of its modules.
func (g *Gateway) spec(gr *graph, n *node) (factory.Spec, error) {
	d := &gr.deployment
	if gr.function != nil {
		return factory.Spec{Grouped: gr.function.policy(&g.options)}, nil
	}
	if d.Pool != nil {
		return pool.Dispatcher(*d, g.options.MaxQueue)
	}
	c := factory.Module{
		Policy: d.Pipeline.Dispatch, Groups: TCOptions(*d, n.Module, 0).Groups, SLO: gr.slo - n.Offset - n.Keep.Pressed,
		MaxQueue: g.options.MaxQueue, Early: timing.Early(!g.options.Patient, &d.Pipeline, &d.Plan),
	}
	c.Margin = min(max(0, g.options.Margin), c.SLO/marginShare)
	if m := planned(d, n.Module); m != nil {
		c.Rate = m.Rate
	}
	return c.Spec()
}

func planned(d *placement.Deployment, module string) *plan.Module {
	for i := range d.Plan.Modules {
		if d.Plan.Modules[i].Name == module {
			return &d.Plan.Modules[i]
		}
	}
	return nil
}

// TCOptions is the configuration of the tc policy for one module of a
// deployment: its groups by the index that slots refer to, with durations by
// batch size from the profile. Without a plan for the module the slots say
// what there is. maxQueue is passed through.
func TCOptions(d placement.Deployment, module string, maxQueue int) tc.Options {
	o := tc.Options{MaxQueue: maxQueue}
	if m := planned(&d, module); m != nil {
		o.Groups = timing.Groups(d.Pipeline.Module(module), m)
	}
	for _, s := range d.Slots {
		if s.Module != module {
			continue
		}
		for len(o.Groups) <= s.Group {
			o.Groups = append(o.Groups, tc.Group{Batch: s.Batch, Window: s.Window, Duration: s.Duration})
		}
	}
	return o
}
