package hosting

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
	"github.com/harpagon/harpagon/sdk/local/roles"
)

// NewDispatcherCommand makes harpagon dispatcher.
func NewDispatcherCommand(d *command.Deps) *cobra.Command {
	var o roles.DispatcherOptions
	var security command.SecurityFlags
	c := &cobra.Command{
		Use:   "dispatcher",
		Short: "Decide for gateways which items run when and where",
		Long: `Keeps the queues of the gateways that are started with --dispatcher and this
address, and starts batches on the executors, which come to the port after it. It sees
names, sizes and deadlines, never a tensor, and needs no Temporal server. Of several the
one that has started last decides; when it is gone, gateways tell another what waits.`,
		Example: `  HARPAGON_TOKEN=secret harpagon dispatcher --listen :8094
  HARPAGON_TOKEN=secret harpagon gateway --dispatcher dispatcher:8094`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Credentials, err = security.Credentials(); err != nil {
				return err
			}
			o.Tell = func(line string) { fmt.Fprintln(d.Stderr, line) }
			return roles.RunDispatcher(c.Context(), o, func(r *roles.Dispatcher) {
				fmt.Fprintf(d.Stdout, "dispatcher  %s\n", r.Addr)
			})
		},
	}
	name, _ := os.Hostname()
	c.Flags().StringVar(&o.Addr, "listen", "127.0.0.1:8094", "`address` for gateways; executors come to the port after it")
	c.Flags().StringVar(&o.Name, "name", name, "of this process")
	registerKeepalive(c, &o.Keepalive)
	security.Register(c)
	return c
}
