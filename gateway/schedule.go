package gateway

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// schedule fills in what the plan says about time: budgets above every node
// and the least need below.
func (g *graph) schedule() {
	least := make([]time.Duration, len(g.nodes))
	for i, n := range g.nodes {
		if m := planned(&g.deployment, n.name); m != nil {
			n.budget = m.Budget
		}
		least[i] = leastDuration(&g.deployment, n.name)
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

// leastDuration is the time of the quickest batch that the plan's groups run.
func leastDuration(d *placement.Deployment, module string) time.Duration {
	least := time.Duration(-1)
	for _, g := range TCOptions(*d, module, 0).Groups {
		quickest := g.Duration
		if len(g.Durations) > 0 {
			quickest = min(quickest, g.Durations[0])
		}
		if least < 0 || quickest < least {
			least = quickest
		}
	}
	return max(least, 0)
}

// TCOptions is the configuration of the tc policy for one module of a
// deployment: its groups by the index that slots refer to, with durations by
// batch size from the profile. Without a plan for the module the slots say
// what there is. maxQueue is passed through.
func TCOptions(d placement.Deployment, module string, maxQueue int) dispatch.TCOptions {
	o := dispatch.TCOptions{MaxQueue: maxQueue}
	if m := planned(&d, module); m != nil {
		for _, g := range m.Groups {
			o.Groups = append(o.Groups, dispatch.GroupOptions{
				Batch: g.Batch, Window: g.Window, Duration: g.Duration, Period: g.Period,
				Durations: durations(d.Pipeline.Module(module), g.Hardware, g.Batch, g.Concurrency, g.Duration),
			})
		}
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

// durations by batch size, for every size up to batch: that of the smallest
// profiled batch which is at least as large, since engines pad. It is nil
// where the profile has no such points.
func durations(m *pipelines.Module, hardware string, batch, concurrency int, full time.Duration) []time.Duration {
	if m == nil || batch < 1 {
		return nil
	}
	out := make([]time.Duration, batch)
	for n := range out {
		out[n] = full
		size := batch
		for _, p := range m.Profile.Points {
			if p.Hardware == hardware && max(p.Concurrency, 1) == max(concurrency, 1) && p.Batch > n && p.Batch < size {
				size, out[n] = p.Batch, min(p.Duration, full)
			}
		}
	}
	return out
}
