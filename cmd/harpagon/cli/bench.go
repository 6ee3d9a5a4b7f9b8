package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func newBenchCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Judge the policies on a suite of drawn workloads",
		Long: `Runs what Harpagon decides with on workloads that are drawn at random, always the
same ones, and prints how good the decisions are and how long they take.`,
		Example: `  harpagon bench plan
  harpagon bench plan --curve
  harpagon bench dispatch
  harpagon bench overload`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrongUse(c, fmt.Errorf("there is no suite %q; there are plan, dispatch and overload", args[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchPlanCommand(d), newBenchDispatchCommand(d), newBenchOverloadCommand(d))
	return c
}

// benchParts are what bench plan can print, in that order.
func benchParts() []string { return []string{"policies", "ablations", "probe", "curve"} }

type benchFlags struct {
	workloads  int
	seed       uint64
	policies   []string
	models     []string
	parts      []string
	curve      bool
	limit      time.Duration
	asJSON     bool
	asMarkdown bool
	plot       string

	concurrency bool // profiles with several batches at a time, too

	known map[string][]planning.Outcome // by options, then workload
}

func newBenchPlanCommand(d *Deps) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Plan the suite's workloads by every policy, and print the paper's tables",
		Long: `Draws workloads over the applications of pipelines/library, plans each by every
policy under every cost model, and prints

  policies   how often each policy is optimal, what it costs over exact, how often
             its promise cannot be kept, and how long it takes
  ablations  policies harpagon and piccolo with one step after the other switched
             off, and the other policies over harpagon, beside the averages that
             their papers print
  probe      how often Theorem 1 of the paper claims a latency that no dispatcher
             can keep, on random modules

With --curve it prints solve time over the number of modules instead: up to 200,
with 10 kinds of hardware and 16 batch sizes. A policy that needed more than a
second for one size is not tried on larger ones.

The same seed draws the same workloads everywhere. Solve times are the processor
time that a plan took on one core of this machine (elapsed time where the system
does not tell), so that other work on it hardly matters. Policies that search
exhaustively are run on every sixth workload, and on every 24th under other cost
models than the papers'.`,
		Example: `  harpagon bench plan
  harpagon bench plan --workloads 100 --policy exact,harpagon --cost-model proportional
  harpagon bench plan --concurrency --part policies
  harpagon bench plan --markdown > tables.md
  harpagon bench plan --curve --plot curve.svg`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.IntVar(&f.workloads, "workloads", planning.DefaultWorkloads, "how many workloads to draw")
	flags.Uint64Var(&f.seed, "seed", planning.DefaultSeed, "what to draw them from")
	flags.StringSliceVar(&f.policies, "policy", nil, "only these policies, and exact, which they are judged by; harpagon plan --help lists all")
	flags.StringSliceVar(&f.models, "cost-model", nil, "only these cost models, which harpagon plan --help lists")
	flags.StringSliceVar(&f.parts, "part", benchParts()[:3], "what to print: "+strings.Join(benchParts(), ", "))
	flags.BoolVar(&f.curve, "curve", false, "solve time over the number of modules; the same as --part curve")
	flags.BoolVar(&f.concurrency, "concurrency", false, "give modules profiles at concurrency 2 and 4, too")
	flags.DurationVar(&f.limit, "time-limit", 10*time.Second, "the longest that a search may take which can be cut short")
	flags.BoolVar(&f.asJSON, "json", false, "print the tables as JSON")
	flags.BoolVar(&f.asMarkdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&f.plot, "plot", "", "draw the curve to a `file` that ends in .svg or .png")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return wrongUse(c, err)
		}
		result, err := f.run(c.Context(), d)
		if err != nil {
			return stopped(err)
		}
		return f.write(d, result)
	}
	return c
}

// stopped says what a command that was interrupted leaves behind.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("stopped before the end; nothing was printed")
	}
	return err
}

func (f *benchFlags) check() error {
	if f.curve {
		f.parts = []string{"curve"}
	}
	for _, p := range f.parts {
		if !slices.Contains(benchParts(), p) {
			return fmt.Errorf("there is no part %q; there is %s", p, strings.Join(benchParts(), ", "))
		}
	}
	if len(f.models) == 0 {
		f.models = plan.CostModels()
	}
	for _, m := range f.models {
		if !slices.Contains(plan.CostModels(), m) {
			return fmt.Errorf("there is no cost model %q; there is %s", m, strings.Join(plan.CostModels(), ", "))
		}
	}
	for _, p := range f.policies {
		if !slices.Contains(policies.Names(), p) {
			return fmt.Errorf("there is no policy %q; there is %s", p, strings.Join(policies.Names(), ", "))
		}
	}
	switch {
	case f.workloads < 1 || f.workloads > maxWorkloads:
		return fmt.Errorf("--workloads %d makes no suite; take 1 to %d", f.workloads, maxWorkloads)
	case f.limit <= 0:
		return fmt.Errorf("--time-limit %v leaves no time; take a second or more", f.limit)
	case f.asJSON && f.asMarkdown:
		return errors.New("--json and --markdown exclude each other; take one of them")
	case f.plot != "" && !slices.Contains(f.parts, "curve"):
		return errors.New("--plot draws the curve; add --curve, or draw costs with harpagon compare --plot")
	}
	return checkPicture(f.plot)
}

// maxWorkloads keeps what has been measured in memory.
const maxWorkloads = 1 << 20

// benchResult is the JSON of the command.
type benchResult struct {
	Workloads int              `json:"workloads"`
	Seed      uint64           `json:"seed"`
	Tables    []planning.Table `json:"tables,omitempty"`
	Probes    []planning.Probe `json:"probes,omitempty"`
	Curves    []planning.Curve `json:"curves,omitempty"`
}

func (f *benchFlags) write(d *Deps, r *benchResult) error {
	if err := f.draw(d, r); err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(d.Stdout, r)
	}
	if f.asMarkdown {
		return f.writeMarkdown(d.Stdout, r)
	}
	var parts []string
	for _, t := range r.Tables {
		parts = append(parts, t.Describe())
	}
	for _, p := range r.Probes {
		parts = append(parts, p.Describe())
	}
	for _, c := range r.Curves {
		parts = append(parts, c.Describe())
	}
	_, err := io.WriteString(d.Stdout, strings.Join(parts, "\n"))
	return err
}

func (f *benchFlags) writeMarkdown(w io.Writer, r *benchResult) error {
	var parts []string
	for _, t := range r.Tables {
		parts = append(parts, t.Markdown())
	}
	if len(r.Probes) > 0 {
		parts = append(parts, "### What Theorem 1 promises\n")
	}
	for _, p := range r.Probes {
		parts = append(parts, p.Markdown())
	}
	for _, c := range r.Curves {
		parts = append(parts, c.Markdown())
	}
	head := fmt.Sprintf("# The policies on the suite\n\nMade by `%s` on %s, %d cores (%s/%s). Seed %d.\n\n", f.command(r), runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, f.seed)
	_, err := io.WriteString(w, head+strings.Join(parts, "\n"))
	return err
}

// command is the command line that prints the same.
func (f *benchFlags) command(r *benchResult) string {
	line := "harpagon bench plan"
	if len(r.Curves) > 0 && len(f.parts) == 1 {
		line += " --curve"
	} else if !slices.Equal(f.parts, benchParts()[:3]) {
		line += " --part " + strings.Join(f.parts, ",")
	}
	if r.Tables != nil && f.workloads != planning.DefaultWorkloads {
		line += fmt.Sprintf(" --workloads %d", f.workloads)
	}
	if len(f.policies) > 0 {
		line += " --policy " + strings.Join(f.policies, ",")
	}
	if !slices.Equal(f.models, plan.CostModels()) {
		line += " --cost-model " + strings.Join(f.models, ",")
	}
	if f.concurrency {
		line += " --concurrency"
	}
	if f.seed != planning.DefaultSeed {
		line += fmt.Sprintf(" --seed %d", f.seed)
	}
	return line + " --markdown"
}
