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
	Deps   *Deps
	State  string
	Attach string // where executors of new pipelines dial, on a server elsewhere

	Security securityFlags
}

// newTemporalAt adds the flags that say where Temporal is.
func newTemporalAt(d *Deps, c *cobra.Command) *temporalAt {
	t := &temporalAt{Deps: d}
	c.Flags().StringVar(&t.State, "state", system.DefaultStateDir, "state `folder` of the running system; TEMPORAL_ADDRESS goes before it")
	t.Security.Register(c)
	return t
}

// dial connects; the caller closes the client.
func (t *temporalAt) dial(ctx context.Context) (client.Client, error) {
	options := client.Options{}
	if system.External(t.Deps.Environ) {
		proof, err := t.Security.Credentials()
		if err != nil {
			return nil, err
		}
		if options, err = system.FromEnvironment(proof); err != nil {
			return nil, err
		}
	} else {
		e, err := system.Folder(t.State).Endpoints()
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

// With runs a command over a Control.
func (t *temporalAt) With(ctx context.Context, do func(*control.Control) error) error {
	if system.External(t.Deps.Environ) {
		return control.Explain(t.with(ctx, system.Options{Attach: t.Attach}, do))
	}
	return system.Folder(t.State).Explain(t.with(ctx, system.Options{StateDir: t.State}, do))
}

func (t *temporalAt) with(ctx context.Context, o system.Options, do func(*control.Control) error) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(system.Control(c, o))
}
