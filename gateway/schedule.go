package gateway

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// schedule fills in what the plan says about time: budgets above every node
// and the least need below.
func (g *graph) schedule() {
	least := make([]time.Duration, len(g.nodes))
	for i, n := range g.nodes {
		if m := planned(&g.deployment, n.name); m != nil {
			n.budget = m.Budget
		}
		least[i] = timing.Least(TCOptions(g.deployment, n.name, 0).Groups)
	}
	for _, n := range g.nodes {
		for _, d := range n.down {
			d.offset = max(d.offset, n.offset+n.budget)
		}
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := g.nodes[i]
		for _, d := range n.down {
			n.tail = max(n.tail, d.tail+least[d.index])
		}
	}
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
func TCOptions(d placement.Deployment, module string, maxQueue int) dispatch.TCOptions {
	o := dispatch.TCOptions{MaxQueue: maxQueue}
	if m := planned(&d, module); m != nil {
		o.Groups = timing.Groups(d.Pipeline.Module(module), m)
	}
	for _, s := range d.Slots {
		if s.Module != module {
			continue
		}
		for len(o.Groups) <= s.Group {
			o.Groups = append(o.Groups, dispatch.GroupOptions{Batch: s.Batch, Window: s.Window, Duration: s.Duration})
		}
	}
	return o
}
