package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// slowest, in milliseconds, is how long a policy may need for a plan and still
// be drawn without being asked for.
const slowest = 300

// picture makes the sweeps and draws them: a row of panels for every pipeline
// and cost model.
func (f *compareFlags) picture(ctx context.Context, d *Deps, problems []plan.Problem, all *comparisons) error {
	p := chart.Picture{Footer: "Solid: the promised latency can be kept. Dashed: it cannot. Shaded: no policy has a plan that keeps its promise."}
	var names, models []string
	for i, c := range all.Comparisons {
		problem := problems[i%len(problems)]
		variants := f.drawn(d, c, f.variants(problem.Pipeline.Plan, f.models[i/len(problems)]))
		var row []chart.Panel
		for _, over := range f.over {
			s, err := f.sweep(ctx, d, problem, over, variants)
			if err != nil {
				return err
			}
			s.CostModel = c.CostModel
			all.Sweeps = append(all.Sweeps, s)
			row = append(row, panelOf(s, len(all.Comparisons) > 1))
		}
		p.Rows = append(p.Rows, row)
		names, models = append(names, c.Pipeline), append(models, c.CostModel)
	}
	p.Title = fmt.Sprintf("%s: cost by policy, cost model %s", strings.Join(unique(names), ", "), strings.Join(unique(models), ", "))
	return writePicture(d, f.plot, p)
}

func unique(list []string) []string {
	var short []string
	for _, s := range list {
		if !slices.Contains(short, s) {
			short = append(short, s)
		}
	}
	return short
}

// drawn leaves out what would take too long to draw, and says so.
func (f *compareFlags) drawn(d *Deps, c experiments.Comparison, variants []experiments.Variant) []experiments.Variant {
	var list []experiments.Variant
	for i, v := range variants {
		took := c.Entries[i].Plan.SolveTime
		if ms := quantity.Millis(took); ms > slowest && !slices.Contains(f.policies, v.Name) {
			fmt.Fprintf(d.Stderr, "%s, %s: policy %s needs %.0f ms for a plan and is left out of the picture; --policy %s draws it all the same\n",
				c.Pipeline, c.CostModel, v.Name, ms, v.Name)
			continue
		}
		list = append(list, v)
	}
	return list
}

// sweep plans all points on all cores.
func (f *compareFlags) sweep(ctx context.Context, d *Deps, p plan.Problem, over string, variants []experiments.Variant) (experiments.Sweep, error) {
	x := experiments.Along(p, over, f.points)
	if len(x) == 0 {
		return experiments.Sweep{}, fmt.Errorf("there is nothing to draw over the %s of pipeline %s; give it a rate above zero and profiles", over, p.Pipeline.Name)
	}
	s := experiments.NewSweep(p, over, x, variants)
	what := fmt.Sprintf("%s over %s", p.Pipeline.Name, over)
	err := d.Env().Each(ctx, what, len(x)*len(variants), func(i int) error {
		v, k := i%len(variants), i/len(variants)
		s.Curves[v].Points[k] = variants[v].Point(p, over, x[k], d.Clock, f.limit)
		return nil
	})
	return s, err
}

// panelOf shows a sweep; with the pipeline's name where there are several.
func panelOf(s experiments.Sweep, several bool) chart.Panel {
	panel := chart.Panel{Title: "cost over rate", XLabel: "requests per second", YLabel: "cost per hour", Mark: &chart.Mark{X: s.Declared, Name: "declared"}}
	if s.Over == experiments.OverSLO {
		panel.Title, panel.XLabel = "cost over SLO", "SLO in ms"
	}
	if several {
		panel.Title = fmt.Sprintf("%s, %s: %s", s.Pipeline, s.CostModel, panel.Title)
	}
	for _, c := range s.Curves {
		line := chart.Line{Name: c.Policy, Colour: colourOf(c.Policy)}
		for k, at := range c.Points {
			line.Points = append(line.Points, chart.Point{X: s.X[k], Y: at.Cost, Gap: !at.Feasible, Dashed: !at.Sound})
		}
		panel.Lines = append(panel.Lines, line)
	}
	panel.Shade = unkept(s)
	return panel
}

// unkept are the ranges where no policy has a sound plan.
func unkept(s experiments.Sweep) []chart.Shaded {
	var list []chart.Shaded
	for k, x := range s.X {
		kept := slices.ContainsFunc(s.Curves, func(c experiments.SweepLine) bool { return c.Points[k].Feasible && c.Points[k].Sound })
		if kept {
			continue
		}
		to := s.X[min(k+1, len(s.X)-1)]
		if n := len(list); n > 0 && list[n-1].To == x {
			list[n-1].To = to
			continue
		}
		list = append(list, chart.Shaded{From: x, To: to, Name: "no sound plan"})
	}
	return list
}

// colourOf gives a policy the same colour in every picture; exact has the
// first.
func colourOf(policy string) int {
	names := slices.DeleteFunc(policies.Names(), func(name string) bool { return name == plan.PolicyExact })
	return 1 + slices.Index(names, policy)
}
