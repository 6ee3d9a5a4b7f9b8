package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/workflows/control"
)

func newStatusCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [PIPELINE...]",
		Short: "Show which pipelines run, and how",
		Example: `  harpagon status
  harpagon status traffic --json`,
	}
	at := newTemporalAt(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.with(c.Context(), func(commands *control.Control) error {
			all, err := statuses(c.Context(), commands, args)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(d.Stdout, map[string]any{"pipelines": all})
			}
			return writeStatuses(d.Stdout, all)
		})
	}
	return c
}

func newExplainCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [PIPELINE...]",
		Short: "Tell which plan runs, and why it replaced the one before",
		Long: `Shows the plan of a pipeline, its executors, and the latest decisions: what
changed, why, from which cost to which, and what could not be carried out.`,
		Example: `  harpagon explain traffic`,
	}
	at := newTemporalAt(d, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.with(c.Context(), func(commands *control.Control) error {
			all, err := statuses(c.Context(), commands, args)
			if err != nil {
				return err
			}
			for i, s := range all {
				if i > 0 {
					fmt.Fprintln(d.Stdout)
				}
				fmt.Fprint(d.Stdout, s.Describe())
			}
			return nothingRuns(d.Stdout, all)
		})
	}
	return c
}

func statuses(ctx context.Context, c *control.Control, args []string) ([]control.Status, error) {
	names, err := named(ctx, c, args)
	all := []control.Status{}
	for _, name := range names {
		s, err := c.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, err
}

func writeStatuses(to io.Writer, all []control.Status) error {
	if len(all) == 0 {
		return nothingRuns(to, all)
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pipeline\tphase\tgeneration\trate/s\tcost/h\texecutors\tmeasured/s\tin time\tp99 ms")
	for _, s := range all {
		measured := "-\t-\t-"
		if m := s.Measures; m != nil {
			measured = fmt.Sprintf("%.4g\t%.2f %%\t%.1f", m.Offered, 100*m.Attainment, milliseconds(m.Latency.P99))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.4g\t%.4f\t%d\t%s\n", s.Pipeline, s.Phase, s.Generation, s.Rate, s.Cost, len(s.Executors), measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if table := s.Modules(); table != "" {
			fmt.Fprintf(to, "\n%s\n%s", s.Pipeline, table)
		}
	}
	for _, s := range all {
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Pipeline, s.Failure.Describe())
		}
	}
	return nil
}

func nothingRuns(w io.Writer, all []control.Status) error {
	if len(all) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "No pipeline runs. Declare one and harpagon apply it.")
	return err
}
