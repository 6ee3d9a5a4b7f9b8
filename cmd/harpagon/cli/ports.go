package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/wire/listen"
)

// portFlags are those that say where commands listen. The one of a command that has no flag
// for a port, because it goes by another, comes last.
var portFlags = []string{"http", "grpc", "ui", "addr", "attach", "store-listen", "metrics", "listen"}

// checkPorts says which flag of a command names a port that another program has, before
// anything is started.
func checkPorts(c *cobra.Command) error {
	for _, name := range portFlags {
		if f := c.Flags().Lookup(name); f != nil {
			if err := listen.Free(f.Value.String()); err != nil {
				return namePort(c, err)
			}
		}
	}
	return nil
}

// namePort gives an error about a port the flag of the command that chooses it.
func namePort(c *cobra.Command, err error) error {
	var busy *listen.BusyError
	if !errors.As(err, &busy) || busy.Flag != "" {
		return err
	}
	named := *busy
	for _, name := range portFlags {
		f := c.Flags().Lookup(name)
		if f != nil && (f.Value.String() == busy.Address || name == "listen") {
			named.Flag = "--" + name
			return &named
		}
	}
	return err
}
