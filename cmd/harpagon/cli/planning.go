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

// planningFlags say how services are planned; what is given goes before their
// plan blocks.
type planningFlags struct {
	given   pipelines.Planning
	command *cobra.Command
}

// register adds the flags that every command that plans has.
func (f *planningFlags) register(c *cobra.Command) {
	f.command = c
	flags := c.Flags()
	flags.StringVar(&f.given.Policy, "policy", "", fmt.Sprintf("how to plan, for the services whose kind has the `policy`: %s; pools: %s; functions: %s (default as declared, or else exact)",
		strings.Join(pipelines.Policies(scheduler.KindPipeline), ", "), strings.Join(pipelines.Policies(scheduler.KindPool), ", "), strings.Join(pipelines.Policies(scheduler.KindFunction), ", ")))
	flags.StringVar(&f.given.CostModel, "cost-model", "", "what the plan of a pipeline costs: "+strings.Join(pipelines.CostModels(), ", ")+" (default as declared, or else shared)")
	f.registerSteps(c)
	flags.StringVar(&f.given.Reading, "reading", "", "how Theorem 1 judges a machine that is only partly used: own (default; at its own rate), literal")
	flags.BoolVar(&f.given.Concurrency, "concurrency", false, "use profile points with several batches at a time on a machine, as policies exact, piccolo and scrooge always do")
	flags.BoolVar(&f.given.AllowUnsound, "allow-unsound", false, "serve plans that are not sound: some of their windows cannot be kept")
}

// registerSteps adds the flags that choose how a policy works.
func (f *planningFlags) registerSteps(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&f.given.Without, "without", nil, "`steps` of the policy to switch off: "+strings.Join(pipelines.Steps("harpagon"), ", "))
	flags.StringVar(&f.given.Split, "split", "", "how policy harpagon splits the objective: lc (default), throughput, quantized:10ms, even")
}

// first is a flag that was given; empty when none was.
func (f *planningFlags) first() string {
	for _, name := range []string{"policy", "cost-model", "without", "split", "reading", "concurrency", "allow-unsound"} {
		if f.command.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// check finds what is wrong with the flags whatever is declared.
func (f *planningFlags) check() error { return f.problem(pipelines.CheckOverride(f.given)) }

// override lets the flags go before the plan blocks of the document.
func (f *planningFlags) override(doc *pipelines.Document) error {
	return f.problem(doc.Override(f.given))
}

// problem is the first of those found; the others mostly say the same of other
// services.
func (f *planningFlags) problem(found []pipelines.Fault) error {
	if len(found) == 0 {
		return nil
	}
	return wrongUse(f.command, fmt.Errorf("--%s: %s", strings.ReplaceAll(found[0].Attribute, "_", "-"), strings.TrimSuffix(found[0].Detail, ".")))
}

// solve plans services as they would run.
func (d *Deps) solve(ctx context.Context, specs []scheduler.Spec, fleet scheduler.Fleet, limit time.Duration) ([]scheduler.Plan, error) {
	plans := scheduler.Solve(specs, fleet, scheduler.Limits{Clock: d.Clock, TimeLimit: limit, Stop: func() bool { return ctx.Err() != nil }})
	return plans, ctx.Err()
}
