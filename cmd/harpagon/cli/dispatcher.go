package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// newDispatcherCommand makes harpagon dispatcher.
func newDispatcherCommand(d *Deps) *cobra.Command {
	var o roles.DispatcherOptions
	var security securityFlags
	c := &cobra.Command{
		Use:   "dispatcher",
		Short: "Decide for gateways which items run when and where",
		Long: `Keeps the queues of the gateways that are started with --dispatcher and this
address or with --dispatcher fleet, and starts batches on the executors, which come to
the port after it. It sees names, sizes and deadlines, never a tensor. With
TEMPORAL_ADDRESS it joins the fleet, which shares services between dispatchers; when one
is gone another takes its services over. Without, the one that has started last decides.`,
		Example: `  TEMPORAL_ADDRESS=temporal:7233 HARPAGON_TOKEN=secret harpagon dispatcher --name d1 --listen :8094 --advertise d1:8094
  TEMPORAL_ADDRESS=temporal:7233 HARPAGON_TOKEN=secret harpagon gateway --dispatcher fleet`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d.Settle(c.Context())
			warnOfFewDescriptors(d)
			err := checkConnections(o.Connections)
			if err != nil {
				return err
			}
			if o.Credentials, err = security.Credentials(); err != nil {
				return err
			}
			go o.Credentials.Watch(c.Context(), func(line string) { fmt.Fprintln(d.Stderr, line) })
			if err := checkPorts(c); err != nil {
				return err
			}
			if system.External(d.Environ) {
				t, _, err := dialTemporal(c.Context(), d, o.Credentials)
				if err != nil {
					return err
				}
				defer t.Close()
				o.Client = t
			}
			o.Log = func(line string) { fmt.Fprintln(d.Stderr, line) }
			return roles.RunDispatcher(c.Context(), o, func(r *roles.Dispatcher) {
				fmt.Fprintf(d.Stdout, "dispatcher  %s\n", r.Addr)
			})
		},
	}
	name, _ := os.Hostname()
	c.Flags().StringVar(&o.Addr, "listen", "127.0.0.1:8094", "`address` for gateways; executors come to the port after it")
	c.Flags().StringVar(&o.Advertise, "advertise", "", "`address` at which gateways reach --listen, where that is another")
	c.Flags().StringVar(&o.Name, "name", name, "of this process; another for each dispatcher")
	c.Flags().Lookup("name").DefValue = "its own name"
	c.Flags().StringVar(&o.Record, "record", "", recordUsage)
	registerKeepalive(c, &o.Keepalive)
	registerConnections(c, &o.Connections)
	security.Register(c)
	return c
}
