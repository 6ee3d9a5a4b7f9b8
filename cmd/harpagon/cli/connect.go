package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/sdk/sdkgrpc"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// keptUsage is the help of --state where commands plan.
const keptUsage = "state `folder` with what was measured here, for modules without a profile; one that is named must exist"

// stateFlag is the state folder of commands that read it where there is one. A
// folder that is named must exist.
type stateFlag struct {
	Dir     string
	command *cobra.Command
}

// Register adds --state to a command.
func (s *stateFlag) Register(c *cobra.Command, usage string) {
	s.command = c
	c.Flags().StringVar(&s.Dir, "state", system.DefaultStateDir, usage)
}

// Folder is false where there is none and none was requested.
func (s *stateFlag) Folder() (system.Folder, bool, error) {
	f := system.Folder(s.Dir)
	switch {
	case f.Exists():
		return f, true, nil
	case s.command != nil && s.command.Flags().Changed("state"):
		return f, false, fmt.Errorf("there is no state folder %s; harpagon up --state %s makes one, or name another", s.Dir, s.Dir)
	}
	return f, false, nil
}

// Kept is what the folder keeps of measurements, and where more can be kept: a folder that is
// not there is made when there is something to keep.
func (s *stateFlag) Kept(engines []executors.Engine) activities.Profiles {
	return system.Folder(s.Dir).Kept(engines)
}

// Keep makes the folder, if need be.
func (s *stateFlag) Keep() error {
	if system.Folder(s.Dir).Exists() {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("the state folder that keeps what was measured cannot be made: %w; name another with --state", err)
	}
	return nil
}

// With runs a command over the system on the folder, whatever the environment
// names.
func (s *stateFlag) With(ctx context.Context, do func(*control.Control) error) error {
	at := &temporalAt{Deps: &Deps{}, State: s.Dir}
	return at.With(ctx, do)
}

// Fill gives modules without a profile what the folder keeps of them.
func (s *stateFlag) Fill(doc *pipelines.Document) error {
	f, ok, err := s.Folder()
	if !ok {
		return err
	}
	return f.Fill(doc, system.Engines(system.EngineOptions{}))
}

// LookTime bounds how long a command waits for the system on the state folder.
const LookTime = 10 * time.Second

// Fleet is what the system on the folder has to plan with: its devices, and what
// services other than those hold of them. It is false, and the zero Fleet leaves
// devices to what is declared, where no system runs or it does not answer.
func (s *stateFlag) Fleet(ctx context.Context, d *Deps, specs []scheduler.Spec) (fleet scheduler.Fleet, runs bool, err error) {
	folder, ok, err := s.Folder()
	if !ok || !folder.Running() {
		return fleet, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	err = s.With(ctx, func(commands *control.Control) error {
		view, err := commands.Fleet(ctx)
		if err != nil {
			return err
		}
		var own []string
		for _, s := range specs {
			own = append(own, workflows.SpecID(s))
		}
		fleet = view.For(own...)
		fleet.Transfer, err = counted(ctx, commands, own)
		return err
	})
	if err != nil {
		fmt.Fprintf(d.Stderr, "what runs on %s could not be asked: %v\n", s.Dir, err)
		return scheduler.Fleet{}, false, nil
	}
	return fleet, true, nil
}

// counted is what the services of these workflows count on for the way to executors.
func counted(ctx context.Context, commands *control.Control, own []string) (way time.Duration, err error) {
	all, err := commands.Statuses(ctx)
	for _, s := range all {
		if slices.Contains(own, workflows.ServiceID(s.Kind, s.Name)) {
			way = max(way, s.Transfer)
		}
	}
	return way, err
}

// temporalAt states where the workflows are: at the server that the TEMPORAL_*
// variables name, or at the one of the system on the state folder.
type temporalAt struct {
	Deps   *Deps
	State  string
	Attach string // where executors of new pipelines dial, on a server elsewhere

	Security securityFlags
}

// newTemporalAt adds the flags for the address of Temporal.
func newTemporalAt(d *Deps, c *cobra.Command) *temporalAt {
	t := &temporalAt{Deps: d}
	c.Flags().StringVar(&t.State, "state", system.DefaultStateDir, "state `folder` of the running system; TEMPORAL_ADDRESS overrides it")
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

// gatewayAt states where requests go: to gateways that are named, or to the one
// of the system on the state folder.
type gatewayAt struct {
	state     string
	addresses []string
	security  securityFlags
}

// newGatewayAt adds the flags for the address of a gateway.
func newGatewayAt(c *cobra.Command) *gatewayAt {
	g := &gatewayAt{}
	c.Flags().StringVar(&g.state, "state", system.DefaultStateDir, "state `folder` of the running system")
	c.Flags().StringSliceVar(&g.addresses, "gateway", nil, "`address` of a gateway, HOST:PORT or a URL of http, https, grpc or grpcs, instead of the one that the state folder names; several may be given, with commas or by repeating the flag; their token is read from "+tokenVariable)
	g.security.Register(c)
	return g
}

// Dial reaches the gateways: requests go to them in turn, and to another when one is
// gone.
func (g *gatewayAt) Dial(ctx context.Context) (*sdk.Client, error) {
	addresses := g.addresses
	if len(addresses) == 0 {
		e, err := system.Folder(g.state).Endpoints()
		if err != nil {
			return nil, err
		}
		addresses = []string{e.Gateway}
	}
	return sdk.Dialer{Token: os.Getenv(tokenVariable), TLS: g.security.files, Plaintext: g.security.plain, GRPC: sdkgrpc.Connect}.Dial(ctx, addresses...)
}
