package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// newTemporalCommand makes harpagon temporal.
func newTemporalCommand(d *Deps) *cobra.Command {
	o := system.TemporalOptions{}
	var state string
	var security securityFlags
	c := &cobra.Command{
		Use:   "temporal",
		Short: "Run the embedded Temporal server alone, or as one of a cluster",
		Long: `Runs the Temporal server that harpagon up starts, with its UI, by itself: a real
server on a SQLite file in the state folder. Roles in other processes use it with
TEMPORAL_ADDRESS. While it is away, what serves goes on serving; changes wait.

With --postgres the state is in PostgreSQL, and all servers that are given the same
database are one cluster: each takes over for one that is gone. The first makes the
tables. TEMPORAL_ADDRESS then lists all of them, separated by commas. With --tls-cert,
--tls-key and --tls-ca, clients and the other servers must show certificates of that
CA; clients give theirs the same way and set TEMPORAL_TLS=true.`,
		Example: `  harpagon temporal --addr 127.0.0.1:7233
  TEMPORAL_ADDRESS=127.0.0.1:7233 harpagon control
  PGPASSWORD=secret harpagon temporal --postgres postgres://harpagon@db:5432/harpagon --addr 10.0.0.5:7233 \
    --tls-cert cert.pem --tls-key key.pem --tls-ca ca.pem`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&state, "state", system.DefaultStateDir, "state `folder` that holds the database and the log")
	c.Flags().StringVar(&o.Addr, "addr", "127.0.0.1:7233", "`address` for roles and commands; with --postgres the seven ports after it are for the other servers")
	c.Flags().StringVar(&o.UIAddr, "ui", "127.0.0.1:8233", "`address` of the UI, on this machine; empty means none")
	c.Flags().StringVar(&o.Postgres.URL, "postgres", "", "`URL` of a PostgreSQL database that holds the state of a cluster, instead of a file")
	c.Flags().StringVar(&o.Postgres.Advertise, "advertise", "", "`IP` at which the other servers of the cluster reach this one, where that is not the one of --addr")
	c.Flags().IntVar(&o.Postgres.Shards, "shards", 0, "shares of the histories among servers, fixed when the database is made; 0 means 128")
	security.Register(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if d.Temporal == nil {
			return ErrNoServer
		}
		if err := checkPorts(c); err != nil {
			return err
		}
		if err := os.MkdirAll(state, 0o700); err != nil {
			return err
		}
		o.DBFile, o.LogFile = filepath.Join(state, "temporal.db"), filepath.Join(state, "temporal.log")
		o.WithoutUI, o.SearchAttributes = o.UIAddr == "", roles.SearchAttributes()
		o.TLS = security.Files()
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
