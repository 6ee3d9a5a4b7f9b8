package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// newHistoryCommand makes harpagon history.
func newHistoryCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "List how a service has changed, and what it can go back to",
		Long: `Lists the last twenty changes of a service, latest first: when, why, what it costs
since, and what could not be carried out. Generations marked "kept" are those that
harpagon rollback --to goes back to.`,
		Example: `  harpagon history traffic`,
		Args:    cobra.ExactArgs(1),
	}
	at := newTemporalAt(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			status, err := commands.Status(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(d.Stdout, newHistory(status))
			}
			return writeHistory(d.Stdout, newHistory(status))
		})
	}
	return c
}

// history is what history --json prints.
type history struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind"`
	Serving int         `json:"serving"` // generation; 0 when none does
	Changes []changeRow `json:"changes"` // latest first
}

type changeRow struct {
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"`
	By         string    `json:"by,omitempty"` // who requested it, by their own account; empty where nobody did
	State      string    `json:"state"`        // serves, kept, failed, or empty
	Failure    string    `json:"failure,omitempty"`
	Rate       float64   `json:"rate"` // that it was planned for, or sustains
	Cost       float64   `json:"cost"` // per hour
	Started    int       `json:"started"`
	Stopped    int       `json:"stopped"`
}

func newHistory(s workflows.Status) history {
	h := history{Name: s.Name, Kind: string(s.Kind), Serving: s.Serving, Changes: []changeRow{}}
	for _, d := range slices.Backward(s.Decisions) {
		row := changeRow{
			Generation: d.Generation, At: d.At, Reason: d.Reason, By: d.By, Failure: d.Failure,
			Rate: d.Change.ToRate, Cost: d.Change.ToCost, Started: d.Start, Stopped: d.Stop,
		}
		kept := slices.ContainsFunc(s.Declared, func(k workflows.DeclarationSummary) bool { return k.Generation == d.Generation && !k.Current })
		switch {
		case d.Failure != "":
			row.State = "failed"
		case d.Generation == s.Serving:
			row.State = "serves"
		case kept:
			row.State = "kept"
		}
		h.Changes = append(h.Changes, row)
	}
	return h
}

func writeHistory(to io.Writer, h history) error {
	if len(h.Changes) == 0 {
		_, err := fmt.Fprintf(to, "%s %s has not served yet\n", h.Kind, h.Name)
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "generation\tat (UTC)\t\trate/s\tcost/h\tby\tbecause")
	for _, r := range h.Changes {
		rate, cost := quantity.Number(r.Rate), quantity.Money(r.Cost)
		if r.Failure != "" {
			rate, cost = "-", "-"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Generation, r.At.UTC().Format(time.DateTime), r.State, rate, cost, cmp.Or(r.By, "-"), r.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range h.Changes {
		if r.Failure != "" {
			fmt.Fprintf(to, "\ngeneration %d failed: %s\n", r.Generation, r.Failure)
		}
	}
	return nil
}
