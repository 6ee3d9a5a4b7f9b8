package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

const mpsUsage = "run several processes on a GPU at once by NVIDIA's Multi-Process Service: its daemon, which is started where none is running and ends with this command"

var errMPS = errors.New("--mps is for GPUs; give --gpus, too, or leave it out")

// newUpCommand makes harpagon up.
func newUpCommand(d *Deps) *cobra.Command {
	var o system.Options
	var planning PlanningFlags
	c := &cobra.Command{
		Use:   "up PATH...",
		Short: "Run pipelines on this machine, with everything they need",
		Long: `Starts Temporal with its UI in a process of its own, and a gateway and a worker in
this one; measures the modules that have no profile, plans, starts executors, and
serves until it is interrupted. Services, plans and profiles are kept in the state
folder: started again, even without a PATH or after it was killed, it goes on there.

With TEMPORAL_ADDRESS set it uses that Temporal server instead of its own.`,
		Example: `  harpagon up examples/traffic
  harpagon up examples/traffic --var rate=20 --http 127.0.0.1:9000
  harpagon up pipeline.hcl --engine emulated`,
	}
	x := newDeclaration(d, c)
	flags := c.Flags()
	flags.StringVar(&o.StateDir, "state", system.DefaultStateDir, "state `folder`")
	flags.StringVar(&o.HTTPAddr, "http", "127.0.0.1:8080", "`address` for requests; port 0 takes one that is free")
	flags.StringVar(&o.GRPCAddr, "grpc", "127.0.0.1:8081", "`address` for requests over gRPC; port 0 takes one that is free")
	flags.StringVar(&o.UIAddr, "ui", "127.0.0.1:8233", "`address` for Temporal's UI; port 0 takes one that is free")
	flags.BoolVar(&o.WithoutUI, "without-ui", false, "leave Temporal's UI out")
	flags.StringVar(&o.Engine, "engine", "", "`name` of the engine for every module, such as emulated")
	flags.IntVar(&o.Cores, "cores", 0, "how many cores to offer; 0 means all, or as many as the quota of the container has")
	flags.BoolVar(&o.GPUs, "gpus", false, "offer the NVIDIA GPUs, too")
	flags.BoolVar(&o.MPS, "mps", false, mpsUsage)
	planning.Register(c)
	flags.StringVar(&o.StoreAddr, "store-listen", "", "`address` at which workers elsewhere take models; empty serves none")
	var fetch fetchFlag
	var cache cacheFlags
	fetch.Register(c)
	var limits limitFlags
	limits.Register(c)
	var security securityFlags
	security.Register(c)
	cache.RegisterSize(c)
	flags.BoolVar(&o.Fixed, "fixed", false, "do not plan again when the load drifts")
	flags.StringVar(&o.Record, "record", "", recordUsage)
	c.RunE = func(c *cobra.Command, paths []string) error {
		d.Settle(c.Context())
		if o.MPS && !o.GPUs {
			return wrongUse(c, errMPS)
		}
		if err := planning.Check(); err != nil {
			return err
		}
		var err error
		if o.Fetch, err = fetch.Fetcher(); err != nil {
			return err
		}
		if o.Limits, err = limits.Limits(); err != nil {
			return err
		}
		d.Bound(o.Limits.Bytes)
		if o.Credentials, err = security.Credentials(); err != nil {
			return err
		}
		go o.Credentials.Watch(c.Context(), func(line string) { fmt.Fprintln(d.Stderr, line) })
		if o.CacheSize, err = cache.Limit(); err != nil {
			return err
		}
		if d.Start == nil {
			return ErrNoServer
		}
		if len(paths) > 0 {
			if _, err := planning.Servable(x, paths); err != nil {
				return err
			}
		} else if name := planning.First(); name != "" {
			return wrongUse(c, fmt.Errorf("--%s sets how to plan a declaration, and no PATH is given; name the files, or leave the flag out", name))
		}
		o.Plan = planning.Given
		o.Files, o.VarFiles, o.Vars, o.Environ = paths, x.Files, map[string]string{}, d.Environ
		for _, v := range x.Vars {
			name, value, _ := strings.Cut(v, "=") // document has checked them
			o.Vars[name] = value
		}
		return up(c.Context(), d, o)
	}
	return c
}

func up(ctx context.Context, d *Deps, o system.Options) (err error) {
	begin := time.Now()
	s, err := start(ctx, d, o)
	if err != nil {
		return err
	}
	defer stopSystem(d, s, &err)
	for _, status := range s.Services {
		fmt.Fprintf(d.Stdout, "\n%s", status.Plan.Describe())
	}
	fmt.Fprintf(d.Stdout, "\nready after %.1f s: %s\n", time.Since(begin).Seconds(), counts(s.Services))
	for _, status := range s.Services {
		fmt.Fprint(d.Stdout, status.Emulated())
		for _, model := range status.Plan.Planned().Models() {
			fmt.Fprintf(d.Stdout, "endpoint     %s/v2/models/%s\n", s.GatewayURL, model)
		}
	}
	if s.GatewayGRPC != "" {
		fmt.Fprintf(d.Stdout, "gRPC         %s\n", s.GatewayGRPC)
	}
	if s.StoreURL != "" {
		fmt.Fprintf(d.Stdout, "models       %s\n", s.StoreURL)
	}
	fmt.Fprintf(d.Stdout, "console      %s/\n", s.GatewayURL)
	if s.UIURL != "" {
		fmt.Fprintf(d.Stdout, "Temporal UI  %s\n", s.UIURL)
	}
	fmt.Fprintf(d.Stdout, "Temporal     %s\n", s.TemporalAddress)
	<-ctx.Done()
	return nil
}

// start starts a system that reports its progress.
func start(ctx context.Context, d *Deps, o system.Options) (*system.System, error) {
	begin := time.Now()
	o.Progress = func(line string) { fmt.Fprintf(d.Stderr, "%6.1fs %s\n", time.Since(begin).Seconds(), line) }
	return d.Start(ctx, o)
}

// stopSystem ends a system. What goes wrong then is the error where there was none before.
func stopSystem(d *Deps, s *system.System, err *error) {
	fmt.Fprintln(d.Stderr, "stopping")
	if closed := s.Close(); *err == nil {
		*err = closed
	}
}

// counts reports what serves, such as "1 pipeline, 2 functions".
func counts(all []control.Status) string {
	var parts []string
	for _, kind := range scheduler.Kinds() {
		n := 0
		for _, s := range all {
			if s.Kind == kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, quantity.Count(n, string(kind)))
		}
	}
	if len(parts) == 0 {
		return quantity.Count(0, "service")
	}
	return strings.Join(parts, ", ")
}
