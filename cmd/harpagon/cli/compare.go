package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/pool"
)

type compareFlags struct {
	models   []string
	policies []string
	limit    time.Duration
	stop     func() bool
	asJSON   bool
	plot     string
	over     []string
	points   int
	state    stateFlag
	steps    PlanningFlags // without and split only
}

// newCompareCommand makes harpagon compare.
func newCompareCommand(d *Deps) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare PATH...",
		Short: "Plan the same files by every policy, and show what each would cost",
		Long: `Plans every pipeline of a declaration, by itself, with every policy that there is,
and prints a table: cost per hour, its ratio to the best plan, the proven lower
bound, the latency that the policy claims and the one that is proven, and whether
the plan is sound. Where a policy looks cheaper only because it promises what no
dispatcher can keep, it says so. Several pipelines are planned together as well,
as harpagon plan does.

With --plot it draws cost over SLO and cost over rate around what the files
declare. Lines are dashed where the plan is not sound; policies that need longer
than 300 ms a plan are left out, unless --policy names them.

The policy that a plan block names is planned as the block says; --without and
--split are for the policies that have such steps.

Functions are planned by every policy of theirs, costs per million requests, and
so are pools, by goodput. A cluster is compared with the same pipelines on devices
of their own.

It exits with 1 when some pipeline, function or pool has no sound plan by any policy.`,
		Example: `  harpagon compare pipelines/library
  harpagon compare pipeline.hcl --cost-model proportional,whole --json
  harpagon compare pipeline.hcl --plot costs.svg
  harpagon compare pipeline.hcl --policy exact,harpagon,nexus --plot rate.png --over rate`,
		Args: somePaths,
	}
	x := newDeclaration(d, c)
	flags := c.Flags()
	flags.StringSliceVar(&f.models, "cost-model", nil, "compare under these cost models, which harpagon plan --help lists (default as declared)")
	flags.StringSliceVar(&f.policies, "policy", nil, "only these policies, which harpagon plan --help lists")
	f.steps.RegisterSteps(c)
	flags.DurationVar(&f.limit, "time-limit", scheduler.DefaultTimeLimit, "the longest that a search may take which can be cut short")
	f.state.Register(c, keptUsage)
	flags.BoolVar(&f.asJSON, "json", false, "print the comparisons as JSON")
	flags.StringVar(&f.plot, "plot", "", "draw costs to a `file` that ends in .svg or .png")
	flags.StringSliceVar(&f.over, "over", nil, "what the picture shows costs over: slo, rate (default both)")
	flags.IntVar(&f.points, "points", 100, "how many plans a line of the picture is made of")
	c.RunE = func(c *cobra.Command, paths []string) error {
		if err := f.check(); err != nil {
			return wrongUse(c, err)
		}
		doc, err := x.Document(paths, unmeetable, pipelines.SmallBudget)
		if err != nil {
			return err
		}
		if err := f.state.Fill(doc); err != nil {
			return err
		}
		if err := measured(doc, paths); err != nil {
			return err
		}
		return stopped(f.run(c.Context(), d, doc))
	}
	return c
}

func (f *compareFlags) check() error {
	if f.plot == "" && len(f.over) > 0 {
		return errors.New("--over chooses what a picture shows; add --plot FILE.svg")
	}
	if len(f.over) == 0 {
		f.over = []string{experiments.OverSLO, experiments.OverRate}
	}
	for _, o := range f.over {
		if o != experiments.OverSLO && o != experiments.OverRate {
			return fmt.Errorf("costs cannot be drawn over %q; take slo or rate", o)
		}
	}
	for _, m := range f.models {
		if !slices.Contains(plan.CostModels(), m) {
			return fmt.Errorf("there is no cost model %q; there is %s", m, strings.Join(plan.CostModels(), ", "))
		}
	}
	if len(f.models) == 0 {
		f.models = []string{""} // as declared
	}
	for _, p := range f.policies {
		if !slices.Contains(policies.Names(), p) && !slices.Contains(functions.Policies(), p) && !slices.Contains(pool.Policies(), p) {
			return fmt.Errorf("there is no policy %q; there is %s; for functions %s; and for pools %s", p, strings.Join(policies.Names(), ", "), strings.Join(functions.Policies(), ", "), strings.Join(pool.Policies(), ", "))
		}
	}
	if err := f.checkSteps(); err != nil {
		return err
	}
	switch {
	case f.points < 2 || f.points > maxPoints:
		return fmt.Errorf("--points %d makes no line; take 2 to %d", f.points, maxPoints)
	case f.limit <= 0:
		return fmt.Errorf("--time-limit %v leaves no time; take a second or more", f.limit)
	}
	return checkPicture(f.plot)
}

// maxPoints is more than a picture can show.
const maxPoints = 2000

// variants are the policies asked for under a cost model, empty for the declared
// one. The declared policy is planned as its plan block says, and the steps and
// split of the flags are for the policies that have them.
func (f *compareFlags) variants(declared pipelines.Planning, model string) []experiments.Variant {
	var all []experiments.Variant
	for _, name := range f.policiesOf(scheduler.KindPipeline) {
		p := declared.Override(scheduler.KindPipeline, pipelines.Planning{Policy: name, CostModel: model})
		if with := p.Override(scheduler.KindPipeline, f.steps.Given); len(with.Faults(scheduler.KindPipeline)) == 0 {
			p = with
		}
		all = append(all, experiments.Variant{Name: name, Options: scheduler.Options(p, scheduler.Limits{Stop: f.stop})})
	}
	return all
}

// checkSteps says when no policy that is compared has the steps or the split.
func (f *compareFlags) checkSteps() error {
	given := f.steps.Given
	if len(given.Without) == 0 && given.Split == "" {
		return nil
	}
	var problem string
	for _, name := range f.policiesOf(scheduler.KindPipeline) {
		p := pipelines.Planning{}.Override(scheduler.KindPipeline, pipelines.Planning{Policy: name})
		found := p.Override(scheduler.KindPipeline, given).Faults(scheduler.KindPipeline)
		if len(found) == 0 {
			return nil
		}
		if problem == "" || name == plan.PolicyHarpagon {
			problem = fmt.Sprintf("--%s: %s", found[0].Attribute, strings.TrimSuffix(found[0].Detail, "."))
		}
	}
	return errors.New(cmp.Or(problem, "--without and --split are for policies of pipelines; leave them out"))
}

// comparisons is the JSON of the command.
type comparisons struct {
	Comparisons []experiments.Comparison `json:"comparisons"`
	Together    []experiments.Together   `json:"together,omitempty"`
	Sweeps      []experiments.Sweep      `json:"sweeps,omitempty"`

	Functions []functions.Comparison `json:"functions,omitempty"`
	Pools     []pool.Comparison      `json:"pools,omitempty"`
	Clusters  []cluster.Comparison   `json:"clusters,omitempty"`
}

func (f *compareFlags) run(ctx context.Context, d *Deps, doc *pipelines.Document) error {
	stop, done := d.Searching(ctx, "searching for plans")
	defer done()
	f.stop = stop
	all := comparisons{Comparisons: []experiments.Comparison{}}
	var problems []plan.Problem
	for _, p := range doc.Pipelines {
		problems = append(problems, plan.Problem{Pipeline: p, Hardware: doc.Hardware})
	}
	for _, model := range f.models {
		for _, p := range problems {
			if err := ctx.Err(); err != nil {
				return err
			}
			all.Comparisons = append(all.Comparisons, experiments.Compare(p, f.variants(p.Pipeline.Plan, model), d.Clock, f.limit))
		}
		if len(problems) > 1 {
			all.Together = append(all.Together, experiments.PlanTogether(problems, f.variants(pipelines.Planning{}, model), d.Clock, f.limit))
		}
	}
	if err := f.others(ctx, d, doc, &all); err != nil {
		return err
	}
	if f.plot != "" && len(problems) == 0 {
		return errors.New("--plot draws costs of pipelines, and the files declare none; leave it out")
	}
	if f.plot != "" {
		if err := f.picture(ctx, d, problems, &all); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done()
	if err := all.write(d.Stdout, f.asJSON); err != nil {
		return err
	}
	return all.verdict()
}

func (c comparisons) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, c)
	}
	texts := described(nil, c.Comparisons)
	texts = described(texts, c.Together)
	texts = described(texts, c.Functions)
	texts = described(texts, c.Pools)
	texts = described(texts, c.Clusters)
	_, err := io.WriteString(w, strings.Join(texts, "\n"))
	return err
}

// verdict is an error when nothing can be promised for some pipeline; its table
// says why.
func (c comparisons) verdict() error {
	none := slices.ContainsFunc(c.Comparisons, func(one experiments.Comparison) bool { return one.Best == "" }) ||
		slices.ContainsFunc(c.Functions, func(one functions.Comparison) bool { return one.Best() == nil }) ||
		slices.ContainsFunc(c.Pools, func(one pool.Comparison) bool { return one.Best() == nil }) ||
		slices.ContainsFunc(c.Clusters, func(one cluster.Comparison) bool { return one.Best == "" })
	if none {
		return ErrReported
	}
	return nil
}

// stopped says what a command that was interrupted leaves behind.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("stopped before the end; nothing was printed")
	}
	return err
}
