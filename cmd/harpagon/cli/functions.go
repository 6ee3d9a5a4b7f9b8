package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// function applies one function and waits until it serves.
func (f *applyFlags) function(ctx context.Context, d *Deps, commands *control.Control, spec workflows.FunctionSpec) (applied, error) {
	name := spec.Function.Name
	reply, err := commands.ApplyFunction(ctx, workflows.FunctionApply{Spec: spec, Reason: f.reason})
	one := applied{Function: name, Generation: reply.Generation, Unchanged: reply.Unchanged}
	if err != nil || f.wait <= 0 {
		return one, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	status, err := commands.WaitFunction(ctx, name, one.Generation, func(s control.FunctionStatus) {
		fmt.Fprintf(d.Stderr, "function %s: %s\n", s.Function, s.Phase)
	})
	if err != nil {
		return one, err
	}
	one.Phase, one.Cost = string(status.Phase), status.Cost
	switch {
	case f.asJSON:
	case one.Unchanged:
		fmt.Fprintf(d.Stdout, "function %s is unchanged, generation %d\n", name, one.Generation)
	default:
		fmt.Fprintf(d.Stdout, "function %s serves generation %d\n", name, one.Generation)
		if n := len(status.Decisions); n > 0 {
			fmt.Fprint(d.Stdout, status.Decisions[n-1].Describe())
		}
		fmt.Fprint(d.Stdout, "\n", status.Plan.Describe())
	}
	return one, nil
}

// everything is the status of pipelines and functions.
type everything struct {
	Services  []serviceRow             `json:"services"` // with status only
	Pipelines []control.Status         `json:"pipelines"`
	Functions []control.FunctionStatus `json:"functions,omitempty"`
	Devices   []deviceRow              `json:"devices,omitempty"` // with status only
	Fleet     *fleetRow                `json:"fleet,omitempty"`
}

// all is the status of what is named, or of everything that runs.
func all(ctx context.Context, c *control.Control, args []string) (everything, error) {
	if len(args) > 0 {
		return someOf(ctx, c, args)
	}
	e := everything{Pipelines: []control.Status{}}
	names, err := c.List(ctx)
	if err != nil {
		return e, err
	}
	for _, name := range names {
		s, err := c.Status(ctx, name)
		if err != nil {
			return e, err
		}
		e.Pipelines = append(e.Pipelines, s)
	}
	if names, err = c.Functions(ctx); err != nil {
		return e, err
	}
	for _, name := range names {
		s, err := c.FunctionStatus(ctx, name)
		if err != nil {
			return e, err
		}
		e.Functions = append(e.Functions, s)
	}
	return e, nil
}

// someOf looks for each name among pipelines first.
func someOf(ctx context.Context, c *control.Control, names []string) (everything, error) {
	e := everything{Pipelines: []control.Status{}}
	for _, name := range names {
		s, err := c.Status(ctx, name)
		if err == nil {
			e.Pipelines = append(e.Pipelines, s)
			continue
		}
		if !errors.Is(err, control.ErrNotFound) {
			return e, err
		}
		f, missing := c.FunctionStatus(ctx, name)
		if missing != nil {
			return e, err
		}
		e.Functions = append(e.Functions, f)
	}
	return e, nil
}

func (e everything) describe() []string {
	var all []string
	for _, s := range e.Pipelines {
		all = append(all, s.Describe())
	}
	for _, s := range e.Functions {
		all = append(all, s.Describe())
	}
	return all
}

// writeFunctions sets what was measured beside the plan.
func writeFunctions(to io.Writer, all []control.FunctionStatus) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "function\tphase\tgeneration\trate/s\tper million\tgroups\tmeasured/s\tper million\tbatch\tviolations")
	for _, s := range all {
		groups, measured := 0, "-\t-\t-\t-"
		if s.Plan != nil {
			groups = len(s.Plan.Groups)
		}
		if m := s.Measures; m != nil && m.Generation == s.Serving {
			t := m.Total()
			measured = fmt.Sprintf("%.4g\t%.3g\t%.1f\t%.2f %%", m.Offered(), 1e6*t.CostPerRequest(), t.MeanBatch(), 100*m.Violations())
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.4g\t%.3g\t%d\t%s\n", s.Function, s.Phase, s.Generation, s.Rate, 1e6*s.CostPerRequest, groups, measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if m := s.Measures; m != nil && s.Plan != nil && m.Generation == s.Serving {
			fmt.Fprintf(to, "\n%s\n%s", s.Function, m.Describe(*s.Plan))
		}
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Function, s.Failure.Describe())
		}
	}
	return nil
}
