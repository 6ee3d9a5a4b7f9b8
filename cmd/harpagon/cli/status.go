package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/workflows/control"
)

func newStatusCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show which pipelines and functions run, and how",
		Example: `  harpagon status
  harpagon status traffic --json`,
	}
	at := newTemporalAt(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.with(c.Context(), func(commands *control.Control) error {
			e, err := all(c.Context(), commands, args)
			if err != nil {
				return err
			}
			found, err := commands.Devices(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				e.Devices, e.Services, e.Fleet = deviceRows(found), e.services(), fleetOf(found)
				return writeJSON(d.Stdout, e)
			}
			if err := writeEverything(d.Stdout, e); err != nil {
				return err
			}
			return writeDevices(d.Stdout, found)
		})
	}
	return c
}

func newExplainCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [NAME...]",
		Short: "Tell which plan runs, and why it replaced the one before",
		Long: `Shows the plan of a pipeline or function, executors or calls, and the latest
decisions: what changed, why, from which cost to which, and what could not be
carried out.`,
		Example: `  harpagon explain traffic`,
	}
	at := newTemporalAt(d, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.with(c.Context(), func(commands *control.Control) error {
			e, err := all(c.Context(), commands, args)
			if err != nil {
				return err
			}
			for i, text := range e.describe() {
				if i > 0 {
					fmt.Fprintln(d.Stdout)
				}
				fmt.Fprint(d.Stdout, text)
			}
			return nothingRuns(d.Stdout, e)
		})
	}
	return c
}

func writeEverything(to io.Writer, e everything) error {
	if len(e.Pipelines) > 0 {
		if err := writeStatuses(to, e.Pipelines); err != nil {
			return err
		}
	}
	if len(e.Functions) > 0 {
		if len(e.Pipelines) > 0 {
			fmt.Fprintln(to)
		}
		if err := writeFunctions(to, e.Functions); err != nil {
			return err
		}
	}
	return nothingRuns(to, e)
}

func writeStatuses(to io.Writer, all []control.Status) error {
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
		for line := range strings.Lines(s.Promise()) {
			fmt.Fprintf(to, "\n%s: %s", s.Pipeline, line)
		}
	}
	for _, s := range all {
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Pipeline, s.Failure.Describe())
		}
	}
	return nil
}

func nothingRuns(w io.Writer, e everything) error {
	if len(e.Pipelines)+len(e.Functions) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "Nothing runs. Declare a pipeline or function and harpagon apply it.")
	return err
}
