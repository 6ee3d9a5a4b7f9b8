package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// unmeetable is the finding that plan reports as an infeasible plan, with its reason, so
// that other pipelines of the same files are planned all the same.
const unmeetable = pipelines.UnmetObjective

// Plans is the JSON of the command: see the fields of plan.Plan, pool.Plan,
// functions.Plan and cluster.Plan.
type Plans struct {
	Plans []plan.Plan `json:"plans"`
	Pools []pool.Plan `json:"pools,omitempty"`

	Functions []functions.Plan `json:"functions,omitempty"`
	Clusters  []cluster.Plan   `json:"clusters,omitempty"`

	// Made is there in the file of --out.
	Made *PlanOrigin `json:"made,omitempty"`

	// Changes is what the plans change of the system on the state folder.
	Changes []planChange `json:"changes,omitempty"`
}

type planFlags struct {
	planning PlanningFlags
	limit    time.Duration
	asJSON   bool
	detailed bool
	out      string
	state    stateFlag
}

// newPlanCommand makes harpagon plan.
func newPlanCommand(d *Deps) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan PATH...",
		Short: "Show budgets, batches, devices and cost; change nothing",
		Long: `Plans every pipeline of a declaration: splits its latency objective among the
modules, and chooses for each the batch sizes, the hardware and the number of
devices that keep its share for the least money. up and apply plan by the same code;
plan only prints.

For a pool it chooses how many instances of each kind serve the most queries for
its budget, and prints the goodput to expect. For a function it chooses which
applications share batches, and the size of the function that runs them, at
least cost per request. For a cluster it divides the objectives of its pipelines so
that the devices have least work, and prints how many the declared rates need, and
the highest rate that these would serve.

Services are planned by their plan blocks, which flags override: --policy names a
policy of pipelines, pools or functions, and applies to the kinds that have it.

Plans need profiles. For modules that name none, it takes what harpagon up or harpagon
profile has measured into the state folder (--state; .harpagon, where it exists).
harpagon profile --out writes files for modules to name. Where a system runs on the folder, plans are made for its devices,
and the difference to the plans that serve is shown.

It exits with 1 when a pipeline cannot be planned, and prints the reason with the
other plans. With --detailed-exitcode it exits with 2 when the plans
differ from those that the file of --out holds; without --out, when they change
what runs, or, where no system runs on the state folder, when they need any device.`,
		Example: `  harpagon plan pipeline.hcl
  harpagon plan . --var rate=200 --json
  harpagon plan . --policy harpagon --cost-model proportional --without dummy,reassign
  harpagon plan . --out plan.json --detailed-exitcode`,
		Args: somePaths,
	}
	x := newDeclaration(d, c)
	f.register(c)
	c.RunE = func(c *cobra.Command, paths []string) error {
		doc, err := plannable(x, &f.planning, &f.state, paths)
		if err != nil {
			return err
		}
		return stopped(f.run(c.Context(), x, paths, doc))
	}
	return c
}

func (f *planFlags) register(c *cobra.Command) {
	flags := c.Flags()
	f.planning.Register(c)
	flags.DurationVar(&f.limit, "time-limit", scheduler.DefaultTimeLimit, "the longest that a search may take before the best plan found is printed with its bound; 0 for none")
	f.state.Register(c, keptUsage)
	flags.BoolVar(&f.asJSON, "json", false, "print the plans as JSON")
	flags.BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 when something changes")
	flags.StringVar(&f.out, "out", "", "write the plans as JSON to a `file`, too, for apply --plan")
}

func (f *planFlags) run(ctx context.Context, x *Declaration, paths []string, doc *pipelines.Document) error {
	d := x.Deps
	specs := scheduler.Specs(doc)
	fleet, runs, err := f.state.Fleet(ctx, d, specs)
	if err != nil {
		return err
	}
	found, err := d.Solve(ctx, specs, fleet, f.limit)
	if err != nil {
		return err
	}
	all := plansOf(found)
	if runs {
		all.Changes = f.running(ctx, d, doc, all)
	}
	if err := all.write(d.Stdout, f.asJSON); err != nil {
		return err
	}
	if f.out != "" {
		if all.Made, err = f.made(ctx, x, paths, specs, fleet, runs); err != nil {
			return err
		}
	}
	changed, err := f.keep(all)
	switch {
	case err != nil:
		return err
	case all.infeasible():
		return ErrReported // each plan has its reason
	case f.detailed && changed:
		return ErrChanges
	}
	return nil
}

// plansOf sorts plans by the kind of service.
func plansOf(found []scheduler.Plan) Plans {
	all := Plans{Plans: []plan.Plan{}}
	for _, p := range found {
		switch {
		case p.Pipeline != nil:
			all.Plans = append(all.Plans, *p.Pipeline)
		case p.Pool != nil:
			all.Pools = append(all.Pools, *p.Pool)
		case p.Function != nil:
			all.Functions = append(all.Functions, *p.Function)
		case p.Cluster != nil:
			all.Clusters = append(all.Clusters, *p.Cluster)
		}
	}
	return all
}

// plannable is what the files declare, with the planning flags applied and the measurements
// of the state folder. Every module has a profile.
func plannable(x *Declaration, planning *PlanningFlags, state *stateFlag, paths []string) (*pipelines.Document, error) {
	if err := planning.Check(); err != nil {
		return nil, err
	}
	doc, err := x.Document(paths, unmeetable, pipelines.SmallBudget)
	if err != nil {
		return nil, err
	}
	if err := planning.Override(doc); err != nil {
		return nil, err
	}
	if err := state.Fill(doc); err != nil {
		return nil, err
	}
	return doc, measured(doc, paths)
}

// measured names all modules that nothing is known of yet.
func measured(doc *pipelines.Document, paths []string) error {
	var missing []string
	for _, p := range doc.Pipelines {
		for _, m := range p.Modules {
			if len(m.Profile.Points) == 0 {
				missing = append(missing, p.Name+"."+m.Name)
			}
		}
	}
	for i := range doc.Pools {
		if p := &doc.Pools[i]; p.Unmeasured() && !p.Learned {
			missing = append(missing, doc.Pools[i].Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	at := strings.Join(paths, " ")
	return fmt.Errorf("these modules have no profile: %s; measure them with harpagon profile %s --out DIR and name the files in the modules (profile = \"DIR/NAME.csv\"), or let harpagon up %s measure, plan and serve in one go",
		strings.Join(missing, ", "), at, at)
}

// each are the plans, pipelines first.
func (p Plans) each() []scheduler.Plan {
	var all []scheduler.Plan
	for i := range p.Plans {
		all = append(all, scheduler.Plan{Pipeline: &p.Plans[i]})
	}
	for i := range p.Pools {
		all = append(all, scheduler.Plan{Pool: &p.Pools[i]})
	}
	for i := range p.Functions {
		all = append(all, scheduler.Plan{Function: &p.Functions[i]})
	}
	for i := range p.Clusters {
		all = append(all, scheduler.Plan{Cluster: &p.Clusters[i]})
	}
	return all
}

func (p Plans) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, p)
	}
	texts := described(nil, p.each())
	if len(p.Changes) > 0 {
		texts = append(texts, strings.Join(described(nil, p.Changes), ""))
	}
	_, err := io.WriteString(w, strings.Join(texts, "\n"))
	return err
}

// described adds the text of each to texts.
func described[T interface{ Describe() string }](texts []string, all []T) []string {
	for _, one := range all {
		texts = append(texts, one.Describe())
	}
	return texts
}

func (p Plans) infeasible() bool {
	return slices.ContainsFunc(p.each(), func(one scheduler.Plan) bool { return one.Reason() != "" })
}

// keep writes the plans to the file of --out and reports whether they differ from
// what it held.
func (f *planFlags) keep(all Plans) (changed bool, err error) {
	if f.out == "" {
		return all.differs(), nil
	}
	var earlier Plans
	old, err := os.ReadFile(f.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	default:
		if err := json.Unmarshal(old, &earlier); err != nil {
			return false, fmt.Errorf("%s holds something else than plans (%w); name another file with --out", f.out, err)
		}
	}
	text, err := MarshalSealed(all, all.Made)
	if err != nil {
		return false, err
	}
	if err := osutil.ReplaceFile(f.out, text, 0o644); err != nil {
		return false, fmt.Errorf("the plans were not kept: %w", err)
	}
	return !earlier.same(all), nil
}

// made notes what the plans were made from.
func (f *planFlags) made(ctx context.Context, x *Declaration, paths []string, specs []scheduler.Spec, fleet scheduler.Fleet, runs bool) (*PlanOrigin, error) {
	if !runs {
		return newPlanOrigin(x, &f.planning, paths, specs, nil)
	}
	m, err := newPlanOrigin(x, &f.planning, paths, specs, &fleet)
	if err != nil {
		return nil, err
	}
	return m, f.state.With(ctx, func(commands *control.Control) error { return m.RecordGenerations(ctx, commands, specs) })
}

// differs reports whether the plans change what runs; where nothing is known of
// that, whether they need any device.
func (p Plans) differs() bool {
	if len(p.Changes) > 0 {
		return slices.ContainsFunc(p.Changes, func(c planChange) bool { return !c.Unchanged })
	}
	return slices.ContainsFunc(p.each(), func(one scheduler.Plan) bool { return one.CostPerHour() > 0 })
}

// same compares plans, but not how long it took to find them.
func (p Plans) same(other Plans) bool {
	return slices.EqualFunc(p.each(), other.each(), func(a, b scheduler.Plan) bool {
		return bytes.Equal(timeless(a), timeless(b))
	})
}

// timeless is the plan as JSON keeps it, without how long it took to find.
func timeless(p scheduler.Plan) []byte {
	switch {
	case p.Pipeline != nil:
		one := *p.Pipeline
		one.SolveTime, p.Pipeline = 0, &one
	case p.Function != nil:
		one := *p.Function
		one.SolveTime, p.Function = 0, &one
	}
	text, _ := json.Marshal(p) // a plan always has one
	return text
}

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

// compareRunning returns what a plan for a rate changes compared with a status; the zero
// Status means that nothing runs.
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

// Describe reports what the plan changes, a line for each module that differs.
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
