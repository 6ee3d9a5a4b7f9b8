package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/workflows/control"
)

// newStatusCommand makes harpagon status.
func newStatusCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show which services run, and how",
		Example: `  harpagon status
  harpagon status traffic --json`,
	}
	at := newTemporalAt(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			services, err := commands.Statuses(c.Context(), args...)
			if err != nil {
				return err
			}
			found, err := commands.Devices(c.Context())
			if err != nil {
				return err
			}
			view, err := commands.Fleet(c.Context())
			if err != nil {
				return err
			}
			provisioners, err := commands.Provisioners(c.Context(), view)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(d.Stdout, newEverythingRow(services, found, view, provisioners))
			}
			if err := writeServices(d.Stdout, services); err != nil {
				return err
			}
			return errors.Join(writeDevices(d.Stdout, found), writeLeaving(d.Stdout, view), writeDispatchers(d.Stdout, view), writeProvisioners(d.Stdout, provisioners))
		})
	}
	return c
}

// newExplainCommand makes harpagon explain.
func newExplainCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [NAME...]",
		Short: "Tell which plan runs, and why it replaced the one before",
		Long: `Shows the plan of a service, its executors or calls, and the latest
decisions: what changed, why, from which cost to which, and what could not be
carried out.`,
		Example: `  harpagon explain traffic`,
	}
	at := newTemporalAt(d, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			services, err := commands.Statuses(c.Context(), args...)
			if err != nil {
				return err
			}
			for i, s := range services {
				if i > 0 {
					fmt.Fprintln(d.Stdout)
				}
				fmt.Fprint(d.Stdout, s.Describe())
			}
			return nothingRuns(d.Stdout, services)
		})
	}
	return c
}

// writeServices writes a table of what runs on executors, and one of functions.
func writeServices(to io.Writer, all []control.Status) error {
	var served, called []control.Status
	for _, s := range all {
		if s.Kind == pipelines.KindFunction {
			called = append(called, s)
		} else {
			served = append(served, s)
		}
	}
	if len(served) > 0 {
		if err := writeStatuses(to, served); err != nil {
			return err
		}
	}
	if len(called) > 0 {
		if len(served) > 0 {
			fmt.Fprintln(to)
		}
		if err := writeFunctions(to, called); err != nil {
			return err
		}
	}
	return nothingRuns(to, all)
}

func writeStatuses(to io.Writer, all []control.Status) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pipeline\tphase\tgeneration\tpolicy\trate/s\tcost/h\texecutors\tmeasured/s\tin time\tp99\tinvalid")
	for _, s := range all {
		measured := "-\t-\t-\t-"
		if m := s.Measures; m != nil {
			measured = fmt.Sprintf("%s\t%s\t%s\t%d", quantity.Number(m.Offered), quantity.Percent(m.Attainment), quantity.Duration(m.Latency.P99), m.Invalid)
		}
		executors := fmt.Sprint(len(s.Executors))
		if n := len(s.Missing); n > 0 {
			executors = fmt.Sprintf("%d of %d", len(s.Executors)-n, len(s.Executors))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Phase, s.Generation, policyOf(s),
			quantity.Number(s.Rate), quantity.Money(s.Cost), executors, measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if table := s.Modules(); table != "" {
			fmt.Fprintf(to, "\n%s\n%s", s.Name, table)
		}
	}
	for _, s := range all {
		for line := range strings.Lines(s.Variants() + s.Promise()) {
			fmt.Fprintf(to, "\n%s: %s", s.Name, line)
		}
	}
	for _, s := range all {
		if s.Trial != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Trial.Describe())
		}
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Failure.Describe())
		}
	}
	return nil
}

func nothingRuns(w io.Writer, all []control.Status) error {
	if len(all) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "Nothing runs. Declare a service and harpagon apply it.")
	return err
}

// policyOf is how a service is planned: its policy, and of a pipeline the cost
// model.
func policyOf(s control.Status) string {
	if s.CostModel == "" {
		return cmp.Or(s.Policy, "-")
	}
	return s.Policy + ", " + s.CostModel
}
