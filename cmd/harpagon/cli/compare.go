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

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
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
the plan is sound. A note marks each policy that looks cheaper only because it promises
what no dispatcher can keep. Several pipelines are planned together as well,
as harpagon plan does.

With --plot it draws cost over SLO and cost over rate around what the files
declare. Lines are dashed where the plan is not sound; policies that need longer
than 300 ms a plan are left out, unless --policy names them.

The policy that a plan block names is planned with the settings of the block; --without
and --split apply to the policies that have such steps.

Functions are compared by cost per million requests, pools by goodput, and clusters
with the same pipelines on devices of their own.

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
	flags.DurationVar(&f.limit, "time-limit", scheduler.DefaultTimeLimit, "the longest that a search may take")
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

// variants are the requested policies under a cost model, empty for the declared one. The
// declared policy follows its plan block, and the steps and split of the flags are for the
// policies that have them.
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

// checkSteps reports when no policy that is compared has the steps or the split.
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

// verdict is an error when nothing can be promised for some pipeline; its table has the
// reason.
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

// stopped reports what a command that was interrupted leaves behind.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("stopped before the end; nothing was printed")
	}
	return err
}

// policiesOf are the requested policies that a kind of service has.
func (f *compareFlags) policiesOf(k scheduler.Kind) []string {
	return slices.DeleteFunc(pipelines.Policies(k), func(name string) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, name)
	})
}

// others compares the policies on every function and pool of the document, and
// every cluster with the same pipelines apart.
func (f *compareFlags) others(ctx context.Context, d *Deps, doc *pipelines.Document, to *comparisons) error {
	for _, s := range scheduler.Specs(doc) {
		if s.Kind() == scheduler.KindCluster {
			one, err := f.cluster(ctx, d, s)
			if err != nil {
				return err
			}
			to.Clusters = append(to.Clusters, one)
			continue
		}
		names := f.policiesOf(s.Kind())
		if len(names) == 0 {
			continue
		}
		switch s.Kind() {
		case scheduler.KindFunction:
			one := functions.Comparison{Function: s.Function.Name}
			for _, name := range names {
				plan, err := functions.Solve(s.FunctionProblem(), functions.Options{Policy: name, Clock: d.Clock, Stop: f.ended(ctx, d)})
				if err != nil {
					return err
				}
				one.Plans = append(one.Plans, plan)
			}
			to.Functions = append(to.Functions, one)
		case scheduler.KindPool:
			to.Pools = append(to.Pools, pool.Compare(pool.Problem{Pool: *s.Pool, Hardware: s.Hardware}, pool.Options{}, names...))
		}
	}
	return nil
}

// ended is when a search that begins now must end.
func (f *compareFlags) ended(ctx context.Context, d *Deps) func() bool {
	if f.limit <= 0 || d.Clock == nil {
		return func() bool { return ctx.Err() != nil }
	}
	begin := d.Clock()
	return func() bool { return ctx.Err() != nil || d.Clock()-begin >= f.limit }
}

// cluster plans a cluster, and its pipelines without it.
func (f *compareFlags) cluster(ctx context.Context, d *Deps, s scheduler.Spec) (cluster.Comparison, error) {
	specs := []scheduler.Spec{s}
	for i := range s.Members {
		specs = append(specs, scheduler.Spec{Pipeline: &s.Members[i], Hardware: s.Hardware})
	}
	found, err := d.Solve(ctx, specs, scheduler.Fleet{}, f.limit)
	if err != nil {
		return cluster.Comparison{}, err
	}
	var apart []plan.Plan
	for _, p := range found[1:] {
		apart = append(apart, *p.Pipeline)
	}
	return cluster.Compare(*found[0].Cluster, apart), nil
}

// slowest, in milliseconds, is how long a policy may need for a plan and still be drawn by
// default.
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

// drawn leaves out what would take too long to draw, and prints that.
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
