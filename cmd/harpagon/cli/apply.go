package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

type applyFlags struct {
	reason   string
	wait     time.Duration
	asJSON   bool
	detailed bool
}

// register adds what commands have that change a service.
func (f *applyFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "reason to record in the history")
	c.Flags().DurationVar(&f.wait, "wait", 10*time.Minute, "how long to wait until it serves; 0 returns when it is accepted")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 when something changed")
}

// applied is the JSON of one service.
type applied struct {
	Pipeline   string  `json:"pipeline,omitempty"` // or pool
	Function   string  `json:"function,omitempty"`
	Generation int     `json:"generation"`
	Unchanged  bool    `json:"unchanged"`
	Phase      string  `json:"phase"`
	Cost       float64 `json:"cost"`
}

// newApplyCommand makes harpagon apply.
func newApplyCommand(d *Deps) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply PATH...",
		Short: "Change what runs; no request is lost",
		Long: `Makes the declaration the one in force. Where it differs from what runs, the
pipeline is planned again; new executors are ready before traffic moves, and the
old ones finish what they hold. Functions are planned, and called at their
provider, which must answer. It returns when the new plan serves. If the new
plan cannot be carried out, the old one goes on serving and apply prints the reason.

With --plan it carries out the plans that harpagon plan --out wrote, and no others: the
declaration is read again from the same path. The file is refused if something that the
plans depend on has changed: declaration, profiles, devices, the generation in force,
the version of this program, or the file itself.

With --prune, services that run and are not declared are deleted once all that is declared
serves. If something cannot be carried out, nothing is deleted.

A pipeline with an update block is given a share of the requests first, and apply waits
until it serves all of them, or was taken back.

The models that modules need are taken as they are now, by their digests; changing
a file later changes nothing until it is applied again. They go to --store, where
workers are on other hosts.`,
		Example: `  harpagon apply examples/traffic --var rate=20
  harpagon apply . --reason "evening peak"
  harpagon apply --plan plan.json
  harpagon apply . --prune --yes`,
	}
	x := newDeclaration(d, c)
	at := newTemporalAt(d, c)
	var planning PlanningFlags
	planning.Register(c)
	var to storeFlag
	var fetch fetchFlag
	to.Register(c, "`address` to send models to, for workers that do not see the declaration's folder")
	fetch.Register(c)
	c.Flags().StringVar(&at.Attach, "attach", "127.0.0.1:8090", "`address` at which workers reach the gateway, for new services on the server of TEMPORAL_ADDRESS")
	f.register(c)
	var planned plannedFlag
	var prune pruneFlags
	planned.register(c)
	prune.register(c)
	c.Args = planned.args
	c.RunE = func(c *cobra.Command, paths []string) error {
		if err := planning.Check(); err != nil {
			return err
		}
		doc, err := planned.declaration(x, &planning, at.State, paths)
		if err != nil {
			return err
		}
		if err := pin(c.Context(), d, doc, &to, &fetch, at); err != nil {
			return err
		}
		return at.With(c.Context(), func(commands *control.Control) error {
			specs := scheduler.Specs(doc)
			if err := planned.fresh(c.Context(), d, commands, at.State, specs); err != nil {
				return err
			}
			undeclared, err := prune.ask(c.Context(), d, commands, specs, f.wait)
			if err != nil {
				return err
			}
			changed, err := f.run(c.Context(), d, commands, specs, &planned)
			if err != nil {
				return err
			}
			if err := prune.run(c.Context(), d, commands, undeclared); err != nil {
				return err
			}
			return f.finish(d, changed, len(undeclared) > 0)
		})
	}
	return c
}

// pin writes into the document what the files of its modules are now, and sends
// them to where workers find them.
func pin(ctx context.Context, d *Deps, doc *pipelines.Document, to *storeFlag, fetch *fetchFlag, at *temporalAt) error {
	folder := ""
	if !system.External(d.Environ) {
		folder = system.Folder(at.State).Models()
	}
	proof, err := at.Security.Credentials()
	if err != nil {
		return err
	}
	store, err := to.Store(folder, proof)
	if err != nil {
		return err
	}
	fetcher, err := fetch.Fetcher()
	if err != nil {
		return err
	}
	return content.Pinning{Store: store, Fetch: fetcher, Progress: func(line string) { fmt.Fprintln(d.Stderr, line) }}.Pin(ctx, doc)
}

func (f *applyFlags) run(ctx context.Context, d *Deps, commands *control.Control, specs []scheduler.Spec, planned *plannedFlag) ([]applied, error) {
	all := []applied{}
	for i, spec := range specs {
		request := workflows.ApplyRequest{Spec: spec, Beside: scheduler.Beside(specs, i), Reason: f.reason}
		planned.with(&request)
		reply, err := commands.Apply(ctx, request)
		if err != nil {
			return nil, err
		}
		one := newApplied(spec.Kind(), spec.Name(), reply)
		if err := f.follow(ctx, d, commands, spec.Name(), &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func newApplied(kind scheduler.Kind, name string, reply workflows.ChangeReply) applied {
	one := applied{Generation: reply.Generation, Unchanged: reply.Unchanged}
	if kind == scheduler.KindFunction {
		one.Function = name
	} else {
		one.Pipeline = name
	}
	return one
}

// finish prints the changes as JSON if requested, and returns ErrChanges for
// --detailed-exitcode; deleted means that services were.
func (f *applyFlags) finish(d *Deps, all []applied, deleted bool) error {
	if f.asJSON {
		if err := writeJSON(d.Stdout, map[string]any{"applied": all}); err != nil {
			return err
		}
	}
	changed := deleted || slices.ContainsFunc(all, func(one applied) bool { return !one.Unchanged })
	if f.detailed && changed {
		return ErrChanges
	}
	return nil
}

// follow waits until what was applied serves, and prints that.
func (f *applyFlags) follow(ctx context.Context, d *Deps, commands *control.Control, name string, one *applied) error {
	if f.wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	status, err := commands.WaitServing(ctx, name, one.Generation, func(s control.Status) {
		fmt.Fprintf(d.Stderr, "%s %s: %s\n", s.Kind, s.Name, s.Phase)
		if s.Phase == workflows.Waiting && s.Failure != nil && s.Failure.Type == activities.TypeAwaits {
			fmt.Fprintf(d.Stderr, "%s", s.Failure.Describe())
		}
	})
	if err != nil {
		return err
	}
	one.Phase, one.Cost = string(status.Phase), status.Cost
	if f.asJSON {
		return nil
	}
	if one.Unchanged {
		fmt.Fprintf(d.Stdout, "%s %s is unchanged, generation %d\n", status.Kind, name, one.Generation)
		return nil
	}
	fmt.Fprintf(d.Stdout, "%s %s serves generation %d\n", status.Kind, name, one.Generation)
	if n := len(status.Decisions); n > 0 {
		fmt.Fprint(d.Stdout, status.Decisions[n-1].Describe())
	}
	fmt.Fprint(d.Stdout, "\n", status.Plan.Describe())
	return nil
}

// plannedFlag is --plan of apply.
type plannedFlag struct {
	path string
	file *planFile // nil without
}

func (p *plannedFlag) register(c *cobra.Command) {
	c.Flags().StringVar(&p.path, "plan", "", "carry out the plans of a `file` that plan --out wrote, in place of PATH")
}

// args requires paths, or --plan, which includes them.
func (p *plannedFlag) args(c *cobra.Command, args []string) error {
	if p.path == "" {
		return somePaths(c, args)
	}
	if len(args) > 0 {
		return wrongUse(c, errors.New("--plan includes the declaration that it was made from; leave out PATH"))
	}
	for _, name := range []string{"var", "var-file", "policy", "cost-model", "without", "split", "reading", "concurrency", "allow-unsound"} {
		if c.Flags().Changed(name) {
			return wrongUse(c, fmt.Errorf("--plan is carried out as it was made; leave out --%s, or plan again with it", name))
		}
	}
	return nil
}

// declaration is what is to be applied.
func (p *plannedFlag) declaration(x *Declaration, f *PlanningFlags, state string, paths []string) (*pipelines.Document, error) {
	if p.path == "" {
		return f.Servable(x, paths)
	}
	var err error
	if p.file, err = readPlanFile(p.path, x.Deps.Version); err != nil {
		return nil, err
	}
	return p.file.Made.Declaration(x, f, state)
}

// fresh reports why the plans must not be carried out.
func (p *plannedFlag) fresh(ctx context.Context, d *Deps, commands *control.Control, state string, specs []scheduler.Spec) error {
	if p.file == nil {
		return nil
	}
	for _, s := range specs {
		switch of := p.file.Of(s); {
		case of == nil:
			return fmt.Errorf("--plan %s has no plan of %s %s; make it again with harpagon plan --out", p.path, s.Kind(), s.Name())
		case of.Refusal(s) != "":
			return fmt.Errorf("--plan %s: %s %s cannot be served so: %s", p.path, s.Kind(), s.Name(), of.Refusal(s))
		}
	}
	return p.file.Made.VerifyCurrent(ctx, d, commands, state, specs)
}

// with adds the plan to a request, and what must be in force for it.
func (p *plannedFlag) with(r *workflows.ApplyRequest) {
	if p.file == nil {
		return
	}
	r.Plan, r.Expect = p.file.Of(r.Spec), p.file.Made.Generations[r.Spec.Name()]
	if r.Expect == 0 {
		r.Expect = workflows.ExpectNone
	}
}

// pruneFlags delete what is not declared.
type pruneFlags struct{ prune, yes bool }

func (p *pruneFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&p.prune, "prune", false, "delete the services that run and are not declared")
	c.Flags().BoolVar(&p.yes, "yes", false, "delete without asking")
}

// ask returns the services that run and are not declared, once their deletion is confirmed.
func (p *pruneFlags) ask(ctx context.Context, d *Deps, commands services, specs []scheduler.Spec, wait time.Duration) ([]string, error) {
	if !p.prune {
		return nil, nil
	}
	if wait <= 0 {
		return nil, errors.New("--prune deletes once all that is declared serves, and --wait 0 does not wait for that; give --wait a time")
	}
	all, err := commands.List(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool {
		return slices.ContainsFunc(specs, func(s scheduler.Spec) bool { return s.Name() == name })
	})
	if len(all) == 0 {
		return nil, nil
	}
	return all, p.confirm(d, all)
}

// run deletes services. It comes last: what is declared serves by then.
func (p *pruneFlags) run(ctx context.Context, d *Deps, commands services, names []string) error {
	for _, name := range names {
		kind, err := commands.Delete(ctx, name, "not declared any more (apply --prune)")
		if err != nil {
			return err
		}
		fmt.Fprintf(d.Stderr, "%s %s is deleted\n", kind, name)
	}
	return nil
}

// services are what --prune needs of a Control.
type services interface {
	List(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, name, reason string) (pipelines.Kind, error)
}

// confirm asks a person; programs pass --yes.
func (p *pruneFlags) confirm(d *Deps, names []string) error {
	if p.yes {
		return nil
	}
	what := strings.Join(names, ", ")
	if d.Terminal && d.Stdin != nil {
		fmt.Fprintf(d.Stderr, "These services run and are not declared: %s\nDelete them? Only \"yes\" does: ", what)
		if answer, _ := bufio.NewReader(d.Stdin).ReadString('\n'); strings.TrimSpace(answer) == "yes" {
			return nil
		}
	}
	return fmt.Errorf("nothing was changed: --prune would delete %s; give --yes to delete without asking", what)
}
