package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// newTemporalCommand makes harpagon temporal.
func newTemporalCommand(d *command.Deps) *cobra.Command {
	o := system.TemporalOptions{}
	var state string
	c := &cobra.Command{
		Use:   "temporal",
		Short: "Run the embedded Temporal server alone, on this machine",
		Long: `Runs the Temporal server that harpagon up embeds, with its UI, by itself: a real
server on a SQLite file in the state folder, reachable on this machine only. Roles
in other processes use it with TEMPORAL_ADDRESS. While it is away, what serves goes
on serving; changes wait.`,
		Example: `  harpagon temporal --addr 127.0.0.1:7233
  TEMPORAL_ADDRESS=127.0.0.1:7233 harpagon control`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&state, "state", system.DefaultStateDir, "state `folder` that holds the database")
	c.Flags().StringVar(&o.Addr, "addr", "127.0.0.1:7233", "`address` for roles and commands")
	c.Flags().StringVar(&o.UIAddr, "ui", "127.0.0.1:8233", "`address` of the UI; empty means none")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if d.Temporal == nil {
			return command.ErrNoServer
		}
		if err := os.MkdirAll(state, 0o755); err != nil {
			return err
		}
		o.DBFile, o.LogFile = filepath.Join(state, "temporal.db"), filepath.Join(state, "temporal.log")
		o.WithoutUI, o.SearchAttributes = o.UIAddr == "", roles.SearchAttributes()
		s, err := d.Temporal(c.Context(), o)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.Stdout, "Temporal  %s\n", s.Address())
		if url := s.UIURL(); url != "" {
			fmt.Fprintf(d.Stdout, "UI        %s\n", url)
		}
		<-c.Context().Done()
		return s.Stop()
	}
	return c
}
