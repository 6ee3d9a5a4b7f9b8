package factory

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// SharedModels schedules the graph of a pipeline by budgets, and makes a class of every node, in
// their order: a request is due at a module when the budgets up to there have passed,
// and what a module leaves of its budget is the next one's. The pipeline's rate is what
// is expected of it. The error names a module without a profile on one of the kinds of
// hardware.
func SharedModels(p *pipelines.Pipeline, graph *flow.Graph, budgets map[string]time.Duration, hardware ...string) ([]shared.Model, error) {
	keep := make(map[string]flow.KeptWindows, len(budgets))
	for name, b := range budgets {
		keep[name] = flow.KeptWindows{Least: b, Planned: b}
	}
	graph.Schedule(budgets, keep)
	rates := p.Rates()
	all := make([]shared.Model, len(graph.Nodes))
	for i := range graph.Nodes {
		n := &graph.Nodes[i]
		model := shared.Model{SLO: p.SLO - n.Offset - n.Keep.Least, Rate: rates[n.Module]}
		for _, kind := range hardware {
			table := flow.DurationTable(p.Module(n.Module), kind)
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
