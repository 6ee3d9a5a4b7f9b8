// Package classes says how the requests of a cluster are told apart: every module of
// every pipeline is a class of its own to the one policy that dispatches them. The
// simulator and whoever serves make them by the same call, so that what is simulated
// is what runs.
package classes

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// Of schedules the graph of a pipeline by budgets, and makes a class of every node, in
// their order: a request is due at a module when the budgets up to there have passed,
// and what a module leaves of its budget is the next one's. The pipeline's rate is what
// is expected of it. The error names a module without a profile on one of the kinds of
// hardware.
func Of(p *pipelines.Pipeline, graph *flow.Graph, budgets map[string]time.Duration, hardware ...string) ([]shared.Model, error) {
	keep := make(map[string]timing.Kept, len(budgets))
	for name, b := range budgets {
		keep[name] = timing.Kept{Least: b, Planned: b}
	}
	graph.Schedule(budgets, keep)
	rates := p.Rates()
	all := make([]shared.Model, len(graph.Nodes))
	for i := range graph.Nodes {
		n := &graph.Nodes[i]
		model := shared.Model{SLO: p.SLO - n.Offset - n.Keep.Least, Rate: rates[n.Module]}
		for _, kind := range hardware {
			table := timing.Table(p.Module(n.Module), kind)
			if table == nil {
				return nil, fmt.Errorf("module %q of pipeline %q has no profile on %q; every device of a cluster runs every module, so profile it there or leave the hardware out",
					n.Module, p.Name, kind)
			}
			model.Groups = append(model.Groups, table)
		}
		model.Durations = model.Groups[0]
		all[i] = model
	}
	return all, nil
}
