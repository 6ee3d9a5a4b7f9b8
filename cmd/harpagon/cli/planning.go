package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
)

// PlanningFlags say how services are planned; what is given goes before their
// plan blocks.
type PlanningFlags struct {
	Given   pipelines.Planning
	command *cobra.Command
}

// Register adds the flags that every command that plans has.
func (f *PlanningFlags) Register(c *cobra.Command) {
	f.command = c
	flags := c.Flags()
	flags.StringVar(&f.Given.Policy, "policy", "", fmt.Sprintf("how to plan, for the services whose kind has the `policy`: %s; pools: %s; functions: %s (default as declared, or else exact)",
		strings.Join(pipelines.Policies(scheduler.KindPipeline), ", "), strings.Join(pipelines.Policies(scheduler.KindPool), ", "), strings.Join(pipelines.Policies(scheduler.KindFunction), ", ")))
	flags.StringVar(&f.Given.CostModel, "cost-model", "", "what the plan of a pipeline costs: "+strings.Join(pipelines.CostModels(), ", ")+" (default as declared, or else shared)")
	f.RegisterSteps(c)
	flags.StringVar(&f.Given.Reading, "reading", "", "how Theorem 1 judges a machine that is only partly used: own (default; at its own rate), literal")
	flags.BoolVar(&f.Given.Concurrency, "concurrency", false, "use profile points with several batches at a time on a machine, as policies exact, piccolo and scrooge always do")
	flags.BoolVar(&f.Given.AllowUnsound, "allow-unsound", false, "serve plans that are not sound: some of their windows cannot be kept")
}

// RegisterSteps adds the flags that choose how a policy works.
func (f *PlanningFlags) RegisterSteps(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&f.Given.Without, "without", nil, "`steps` of the policy to switch off: "+strings.Join(pipelines.Steps("harpagon"), ", "))
	flags.StringVar(&f.Given.Split, "split", "", "how policy harpagon splits the objective: lc (default), throughput, quantized:10ms, even")
}

// First is a flag that was given; empty when none was.
func (f *PlanningFlags) First() string {
	for _, name := range []string{"policy", "cost-model", "without", "split", "reading", "concurrency", "allow-unsound"} {
		if f.command.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// Check finds what is wrong with the flags whatever is declared.
func (f *PlanningFlags) Check() error { return f.problem(pipelines.CheckOverride(f.Given)) }

// Override lets the flags go before the plan blocks of the document.
func (f *PlanningFlags) Override(doc *pipelines.Document) error {
	return f.problem(doc.Override(f.Given))
}

// Servable is what the files declare, planned as the flags say, where all of it can be
// served.
func (f *PlanningFlags) Servable(x *Declaration, paths []string) (*pipelines.Document, error) {
	doc, err := x.Document(paths)
	if err != nil {
		return nil, err
	}
	if err := f.Override(doc); err != nil {
		return nil, err
	}
	return doc, pipelines.CheckServable(doc)
}

// problem is the first of those found; the others mostly say the same of other
// services.
func (f *PlanningFlags) problem(found []pipelines.Fault) error {
	if len(found) == 0 {
		return nil
	}
	return wrongUse(f.command, fmt.Errorf("--%s: %s", strings.ReplaceAll(found[0].Attribute, "_", "-"), strings.TrimSuffix(found[0].Detail, ".")))
}

// Solve plans services as they would run.
func (d *Deps) Solve(ctx context.Context, specs []scheduler.Spec, fleet scheduler.Fleet, limit time.Duration) ([]scheduler.Plan, error) {
	stop, done := d.Searching(ctx, "searching for plans")
	defer done()
	plans := scheduler.Solve(specs, fleet, scheduler.Limits{Clock: d.Clock, TimeLimit: limit, Stop: stop})
	return plans, ctx.Err()
}
