package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
)

// Declaration is what commands that read HCL files have in common: values for
// variables, and findings that are shown with their place.
type Declaration struct {
	Deps  *Deps
	Vars  []string
	Files []string
}

// newDeclaration adds the flags that set variables.
func newDeclaration(d *Deps, c *cobra.Command) *Declaration {
	x := &Declaration{Deps: d}
	c.Flags().StringArrayVar(&x.Vars, "var", nil, "set a variable: `name=value`; may be repeated, and overrides --var-file and HARPAGON_VAR_name")
	c.Flags().StringArrayVar(&x.Files, "var-file", nil, "a `file` of name = value lines that set variables; may be repeated")
	return x
}

// Load reads the files and finds everything that is wrong with them.
func (x *Declaration) Load(paths []string) (*hcl.Config, hclv2.Diagnostics, error) {
	opts := hcl.LoadOptions{Env: x.Deps.Environ, VarFiles: x.Files, Vars: map[string]string{}}
	for _, v := range x.Vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("--var %s sets nothing; write --var name=value", v)
		}
		opts.Vars[name] = value
	}
	config, diags := hcl.Load(opts, paths...)
	if !diags.HasErrors() || readable(config) {
		diags = append(diags, config.Validate(x.Deps.Signatures)...)
	}
	return config, diags, nil
}

// readable reports whether anything could be read that can be validated in spite
// of errors: where files could not be parsed, what seems to be missing may just
// not have been read.
func readable(c *hcl.Config) bool {
	return len(c.Document.Pipelines)+len(c.Document.Hardware)+len(c.Document.Providers)+len(c.Document.Functions) > 0
}

// Document gives what the files declare, or shows what is wrong with them.
// Findings with the given summaries are left out.
func (x *Declaration) Document(paths []string, except ...string) (*pipelines.Document, error) {
	config, diags, err := x.Load(paths)
	if err != nil {
		return nil, err
	}
	diags = slices.DeleteFunc(diags, func(d *hclv2.Diagnostic) bool { return slices.Contains(except, d.Summary) })
	if err := x.Show(config, diags); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, ErrReported
	}
	return &config.Document, nil
}

// Show writes findings with their places to standard error.
func (x *Declaration) Show(c *hcl.Config, diags hclv2.Diagnostics) error {
	return hcl.WriteDiagnostics(x.Deps.Stderr, c, diags, x.Deps.Colours())
}

// Colours are for people who want them: https://no-color.org.
func (d *Deps) Colours() bool {
	unwanted := func(entry string) bool { return strings.HasPrefix(entry, "NO_COLOR=") && entry != "NO_COLOR=" }
	return d.Terminal && !slices.ContainsFunc(d.Environ, unwanted)
}

// writeJSON prints a result for programs.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// somePaths requires at least one file or folder.
func somePaths(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUse(c, fmt.Errorf("name an HCL file or a folder that holds some (the current one is .)"))
	}
	return nil
}

// PlanningFlags of how services are planned; flags that are set override plan blocks.
type PlanningFlags struct {
	Given   pipelines.Planning
	command *cobra.Command
}

// Register adds the flags that every command that plans has.
func (f *PlanningFlags) Register(c *cobra.Command) {
	f.command = c
	flags := c.Flags()
	flags.StringVar(&f.Given.Policy, "policy", "", fmt.Sprintf("how to plan, for services whose kind has the `policy`: %s; pools: %s; functions: %s (default as declared, or else exact)",
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
	flags.StringSliceVar(&f.Given.Without, "without", nil, "`steps` of the policy to switch off: "+strings.Join(pipelines.Steps(), ", "))
	flags.StringVar(&f.Given.Split, "split", "", "how policies harpagon and piccolo split the objective: lc (default), throughput, quantized:10ms, even")
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

// Servable is what the files declare, with the planning flags applied, where all of it can
// be served.
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

// problem is the first of those found; the others mostly repeat it for other services.
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
