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

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// plannedFlag is --plan of apply.
type plannedFlag struct {
	path string
	file *planFile // nil without
}

func (p *plannedFlag) register(c *cobra.Command) {
	c.Flags().StringVar(&p.path, "plan", "", "carry out the plans of a `file` that plan --out wrote, in place of PATH")
}

// args asks for paths, or for --plan, which knows them.
func (p *plannedFlag) args(c *cobra.Command, args []string) error {
	if p.path == "" {
		return somePaths(c, args)
	}
	if len(args) > 0 {
		return wrongUse(c, errors.New("--plan knows the declaration that it was made from; leave out PATH"))
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

// fresh says why the plans must not be carried out.
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
	return p.file.Made.Fresh(ctx, d, commands, state, specs)
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

// ask gives the services that run and are not declared, once somebody has said that they
// may be deleted.
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

// confirm asks a person; programs say --yes.
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
	return fmt.Errorf("nothing was changed: --prune would delete %s; say --yes to delete without asking", what)
}
