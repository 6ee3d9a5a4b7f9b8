package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// planChange is what a plan changes of a pipeline that runs on the state folder.
type planChange struct {
	Pipeline   string         `json:"pipeline"`
	Generation int            `json:"generation"` // that serves; 0 when none does
	FromRate   float64        `json:"from_rate"`
	ToRate     float64        `json:"to_rate"`
	FromCost   float64        `json:"from_cost"`
	ToCost     float64        `json:"to_cost"`
	Modules    []moduleChange `json:"modules,omitempty"` // whose groups differ
	Unchanged  bool           `json:"unchanged"`

	change workflows.Change
}

// moduleChange is one module that is planned otherwise.
type moduleChange struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// running compares the plans with what serves on the state folder.
func (f *planFlags) running(ctx context.Context, d *Deps, doc *pipelines.Document, all Plans) []planChange {
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	var changes []planChange
	err := f.state.With(ctx, func(commands *control.Control) error {
		for i, one := range all.Plans {
			if one.Status == plan.Infeasible {
				continue
			}
			s, err := commands.Status(ctx, one.Pipeline)
			if err != nil && !errors.Is(err, control.ErrNotFound) {
				return err
			}
			changes = append(changes, compareRunning(s, one, doc.Pipelines[i].Rate))
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(d.Stderr, "what runs on %s could not be asked: %v\n", f.state.Dir, err)
	}
	return changes
}

// compareRunning says what a plan for a rate changes of what a status tells; the
// zero Status is of nothing that runs.
func compareRunning(s control.Status, to plan.Plan, rate float64) planChange {
	c := planChange{Pipeline: to.Pipeline, ToCost: to.Cost, ToRate: rate}
	c.change = workflows.Change{ToRate: c.ToRate, ToCost: to.Cost, ToSLO: to.SLO, First: s.Plan == nil || s.Plan.Pipeline == nil}
	if c.change.First {
		return c
	}
	from := s.Plan.Pipeline
	c.Generation, c.FromRate, c.FromCost = s.Serving, s.Rate, s.Cost
	c.change.FromRate, c.change.FromCost, c.change.FromSLO = s.Rate, s.Cost, from.SLO
	for _, m := range to.Modules {
		before := ""
		if i := slices.IndexFunc(from.Modules, func(o plan.Module) bool { return o.Name == m.Name }); i >= 0 {
			before = groups(from.Modules[i])
		}
		if now := groups(m); now != before {
			c.Modules = append(c.Modules, moduleChange{Name: m.Name, From: before, To: now})
		}
	}
	for _, m := range from.Modules {
		if !slices.ContainsFunc(to.Modules, func(o plan.Module) bool { return o.Name == m.Name }) {
			c.Modules = append(c.Modules, moduleChange{Name: m.Name, From: groups(m)})
		}
	}
	c.Unchanged = len(c.Modules) == 0 && c.FromRate == c.ToRate && c.change.FromSLO == c.change.ToSLO
	return c
}

// groups is what a module is planned with in a few words.
func groups(m plan.Module) string {
	var all []string
	for _, g := range m.Groups {
		all = append(all, fmt.Sprintf("%s %s at batch %d, %s", quantity.Number(g.Machines), g.Hardware, g.Batch, quantity.Duration(g.Duration)))
	}
	return strings.Join(all, " + ")
}

// Describe says what the plan changes, a line for each module that differs.
func (c planChange) Describe() string {
	switch {
	case c.change.First:
		return fmt.Sprintf("%s does not serve yet\n", c.Pipeline)
	case c.Unchanged:
		return fmt.Sprintf("%s serves this plan, as generation %d\n", c.Pipeline, c.Generation)
	}
	text := fmt.Sprintf("%s serves another plan, generation %d; this one changes %s\n", c.Pipeline, c.Generation, c.change.Describe())
	for _, m := range c.Modules {
		text += fmt.Sprintf("  %s: %s -> %s\n", m.Name, orNothing(m.From), orNothing(m.To))
	}
	return text
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
