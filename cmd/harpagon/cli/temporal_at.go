package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

// temporalAt says where the workflows are: at the server that the TEMPORAL_*
// variables name, or at the one of the system on the state folder.
type temporalAt struct {
	deps   *Deps
	state  string
	attach string // where executors of new pipelines dial, on a server elsewhere
}

func newTemporalAt(d *Deps, c *cobra.Command) *temporalAt {
	t := &temporalAt{deps: d}
	c.Flags().StringVar(&t.state, "state", system.DefaultStateDir, "state `folder` of the running system; TEMPORAL_ADDRESS goes before it")
	return t
}

// dial connects; the caller closes the client.
func (t *temporalAt) dial(ctx context.Context) (client.Client, error) {
	options := client.Options{}
	if system.External(t.deps.Environ) {
		var err error
		if options, err = system.FromEnvironment(); err != nil {
			return nil, err
		}
	} else {
		e, err := system.Folder(t.state).Endpoints()
		if err != nil {
			return nil, err
		}
		options.HostPort, options.Namespace = e.Temporal, e.Namespace
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server answers at %s: %w", options.HostPort, err)
	}
	return c, nil
}

// with runs a command over a Control.
func (t *temporalAt) with(ctx context.Context, do func(*control.Control) error) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	o := system.Options{}
	if system.External(t.deps.Environ) {
		o.Attach = t.attach
	}
	return do(system.Control(c, o))
}
