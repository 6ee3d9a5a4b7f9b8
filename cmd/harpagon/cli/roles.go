package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// newControlCommand makes harpagon control.
func newControlCommand(d *Deps) *cobra.Command {
	var o roles.StoreOptions
	var file, size string
	var provision roles.ProvisionOptions
	c := &cobra.Command{
		Use:   "control",
		Short: "Run the workflows, against a Temporal server",
		Long: `Runs the workflows that hold what is declared. With --store-listen it also keeps
the models that apply sends, and serves them to workers by digest. At an address
that other hosts can reach, callers must show the token of ` + tokenVariable + `.

With --provision it creates hosts when services need them and ends idle ones, by the
commands of that file.`,
		Example: `  TEMPORAL_ADDRESS=temporal:7233 harpagon control
  TEMPORAL_ADDRESS=temporal:7233 harpagon control --store-listen 127.0.0.1:8092 --store-dir /var/lib/harpagon/models
  TEMPORAL_ADDRESS=temporal:7233 harpagon control --provision /etc/harpagon/hosts.hcl`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&o.Addr, "store-listen", "", "`address` at which to serve models; empty serves none")
	c.Flags().StringVar(&o.Dir, "store-dir", system.Folder(system.DefaultStateDir).Models(), "`folder` of the models that --store-listen serves")
	c.Flags().StringVar(&size, "store-size", "", "how much that store may take, such as 2TiB (default 500GiB)")
	c.Flags().StringVar(&file, "provision", "", "`file` that describes how hosts are created (docs/how-to/provision.md); empty creates none")
	c.Flags().StringVar(&provision.Folder, "provision-dir", system.Folder(system.DefaultStateDir).Hosts(), "`folder` in which --provision records the hosts that it has created")
	c.Flags().StringArrayVar(&provision.Allow, "allow-address", nil, "`HOST or HOST:PORT` of a provider in which declarations may create functions, and of no other; may be repeated (default any)")
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		if o.Limit, err = Size("store-size", size); err != nil {
			return err
		}
		if file != "" {
			provision.Provisioners, err = hosts.Load(file)
		}
		return err
	}
	return withTemporal(d, c, func(ctx context.Context, t client.Client, namespace string, proof secure.Credentials) error {
		provision.Namespace = namespace
		provision.Progress = func(line string) { fmt.Fprintln(d.Stderr, line) }
		if err := roles.EnsureSearchAttributes(ctx, t, namespace); err != nil {
			return err
		}
		if o.Addr != "" {
			o.Credentials = proof
			store, err := roles.StartStore(o)
			if err != nil {
				return err
			}
			defer store.Stop()
			fmt.Fprintf(d.Stdout, "store      %s\n", store.URL())
		}
		fmt.Fprintln(d.Stderr, "control runs")
		return roles.RunControl(ctx, t, provision)
	})
}

// newWorkerCommand makes harpagon worker.
func newWorkerCommand(d *Deps) *cobra.Command {
	var o roles.HostOptions
	var cores int
	var gpus, mps bool
	var kind string
	var emulate map[string]int
	var from storeFlag
	var cache cacheFlags
	c := &cobra.Command{
		Use:   "worker",
		Short: "Offer this machine's devices, against a Temporal server",
		Long: `Joins the fleet with the devices of this machine; profiles modules and runs
executors on them. Models come by their digests: from --store, or else from the
paths that the declaration names, where these exist here and still hold what was
applied. They are kept in --cache. With --hardware the cores are one instance of
that kind, as pools use them. The gateway's and the store's token is read from
` + tokenVariable + `.

On SIGTERM it gives the fleet notice: nothing new is placed on it, services move what
they run there, and it ends when nothing is left or --notice is over.

With --emulate it offers devices that are not there: every batch takes the time of its
profile. So a fleet of any size can be tried on a few machines.`,
		Example: `  TEMPORAL_ADDRESS=temporal:7233 harpagon worker --name gpu-7 --store http://127.0.0.1:8092
  TEMPORAL_ADDRESS=temporal:7233 harpagon worker --name c5n-1 --hardware c5n.2xlarge --cores 8`,
		Args: cobra.NoArgs,
	}
	name, _ := os.Hostname()
	c.Flags().StringVar(&o.Name, "name", name, "name of this host, unique in the fleet and the same after a restart")
	c.Flags().Lookup("name").DefValue = "its own name" // help and manual are not of this machine
	c.Flags().IntVar(&cores, "cores", 0, "how many cores to offer; 0 means all, or as many as the quota of the container has")
	c.Flags().StringVar(&kind, "hardware", "", "`name` of a kind of instance: offer the cores as one device of it, on which an engine computes with as many threads")
	c.Flags().BoolVar(&gpus, "gpus", false, "offer the NVIDIA GPUs, too")
	c.Flags().BoolVar(&mps, "mps", false, mpsUsage)
	c.Flags().StringToIntVar(&emulate, "emulate", nil, "`KIND=N`: offer so many emulated devices of a kind of hardware, and no others; several may be given, with commas or by repeating the flag")
	c.Flags().StringVar(&o.MetricsAddr, "metrics", "", "`address` on loopback for Prometheus; empty means none")
	c.Flags().DurationVar(&o.Notice, "notice", 10*time.Second, "how long to wait, on SIGTERM, for services to move what they run here")
	c.Flags().StringVar(&o.ProfileDir, "profiles", "", "`folder` that keeps measured profiles")
	c.Flags().StringArrayVar(&o.Confine.Folders, "allow-folder", nil, "`folder` from which declarations may name files by their paths, and no other; may be repeated (default any)")
	c.Flags().StringArrayVar(&o.Confine.Commands, "allow-command", nil, "`program` that declarations may run, as they write it, and no other; may be repeated (default any)")
	c.Flags().StringArrayVar(&o.Confine.Addresses, "allow-address", nil, "`HOST or HOST:PORT` of a model server that declarations may name, and of no other; may be repeated (default any)")
	registerKeepalive(c, &o.Keepalive)
	from.Register(c, "`address` from which to take models")
	cache.Register(c)
	return withTemporal(d, c, func(ctx context.Context, t client.Client, _ string, proof secure.Credentials) error {
		if mps && !gpus {
			return wrongUse(c, errMPS)
		}
		store, err := from.Store("", proof)
		if err != nil {
			return err
		}
		if o.Content, err = cache.Cache(store); err != nil {
			return err
		}
		if o.Devices, err = offered(devices.Config{Host: o.Name, Cores: cores, Kind: kind}, gpus, emulate); err != nil {
			return err
		}
		if gpus && !devices.HaveGPU(o.Devices) {
			fmt.Fprintln(d.Stderr, devices.NoGPU)
		}
		if len(emulate) > 0 {
			o.ForceEngine = executors.EngineEmulated
		}
		of := system.EngineOptions{}
		if mps {
			service, err := devices.StartMPS(ctx, devices.MPSOptions{})
			if err != nil {
				return err
			}
			defer service.Stop()
			of.Env, o.Machine = service.Env(), roles.Machine(true)
			fmt.Fprintln(d.Stderr, service.Describe())
		}
		o.Engines, o.Credentials = system.Engines(of), proof
		o.Memory = gateway.NewBytes(gateway.ByteLimits{Total: requestBytes()})
		o.Progress = func(line string) { fmt.Fprintln(d.Stderr, line) }
		fmt.Fprintf(d.Stderr, "worker %s offers %s\n", o.Name, quantity.Count(len(o.Devices), "device"))
		return roles.RunWorker(ctx, t, o)
	})
}

// newGatewayCommand makes harpagon gateway.
func newGatewayCommand(d *Deps) *cobra.Command {
	o := roles.GatewayOptions{Version: d.Version}
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Take requests, against a Temporal server",
		Long: `Serves pipelines by the Open Inference Protocol, and takes the streams of
executors on other hosts. There may be any number of gateways: each serves every
pipeline, and executors attach to all of them. Addresses that other hosts can reach
need a token, read from ` + tokenVariable + `, which clients and workers must then have.`,
		Example: `  TEMPORAL_ADDRESS=temporal:7233 HARPAGON_TOKEN=secret harpagon gateway --http :8080 --attach :8090 --advertise gateway:8090`,
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&o.HTTPAddr, "http", "127.0.0.1:8080", "`address` for requests")
	c.Flags().StringVar(&o.GRPCAddr, "grpc", "127.0.0.1:8081", "`address` for requests over gRPC; empty serves none")
	c.Flags().StringVar(&o.AttachAddr, "attach", "127.0.0.1:8090", "`address` for executors")
	c.Flags().StringVar(&o.Advertise, "advertise", "", "`address` at which workers reach --attach, where that is another")
	c.Flags().StringSliceVar(&o.Dispatchers, "dispatcher", nil, "`address` of a dispatcher that decides for this gateway; several may be given; "+roles.OfFleet+" for all that have joined the fleet. Without, the gateway decides itself")
	c.Flags().StringVar(&o.Record, "record", "", recordUsage)
	var allow []string
	c.Flags().StringArrayVar(&allow, "allow-address", nil, "`HOST or HOST:PORT` of a provider whose functions declarations may call, and of no other; may be repeated (default any)")
	registerKeepalive(c, &o.Keepalive)
	var limits limitFlags
	limits.Register(c)
	c.Flags().StringVar(&o.Name, "name", "", "name of this gateway, unique in the fleet; the host's name and the port when left out")
	c.Flags().DurationVar(&o.Notice, "notice", 3*time.Second, "how long to go on taking requests on SIGTERM, after reporting that it is not ready")
	return withTemporal(d, c, func(ctx context.Context, t client.Client, _ string, proof secure.Credentials) error {
		var err error
		if o.Limits, err = limits.Limits(); err != nil {
			return err
		}
		d.Bound(o.Limits.Bytes)
		o.Credentials = proof
		o.Gateway.Invoker = serverless.NewInvoker(serverless.InvokerOptions{Allow: allow})
		o.Log = func(line string) { fmt.Fprintln(d.Stderr, line) }
		o.Logger = slog.New(slog.NewTextHandler(d.Stderr, nil))
		return roles.RunGateway(ctx, t, o, func(g *roles.Gateway) {
			fmt.Fprintf(d.Stdout, "endpoint   %s\ngRPC       %s\nexecutors  %s\n", g.URL(), g.GRPC, g.Attach)
		})
	})
}

// registerKeepalive adds the flag of roles that are joined by streams.
func registerKeepalive(c *cobra.Command, patience *time.Duration) {
	c.Flags().DurationVar(patience, "keepalive", stream.DefaultSilence, "how long a peer may leave a keepalive unanswered before it counts as gone")
}

// withTemporal makes a role's command: it dials the server that the environment
// names, and runs until it is interrupted.
func withTemporal(d *Deps, c *cobra.Command, run func(context.Context, client.Client, string, secure.Credentials) error) *cobra.Command {
	var security securityFlags
	security.Register(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.Settle(c.Context())
		warnOfFewDescriptors(d)
		proof, err := security.Credentials()
		if err != nil {
			return err
		}
		go proof.Watch(c.Context(), func(line string) { fmt.Fprintln(d.Stderr, line) })
		if !system.External(d.Environ) {
			return errors.New("a role needs a Temporal server: set TEMPORAL_ADDRESS to one, or run everything in one process with harpagon up")
		}
		if err := checkPorts(c); err != nil {
			return err
		}
		t, namespace, err := dialTemporal(c.Context(), d, proof)
		if err != nil {
			return err
		}
		defer t.Close()
		return run(c.Context(), t, namespace, proof)
	}
	return c
}

// warnOfFewDescriptors reports when the process may have few files and connections open.
func warnOfFewDescriptors(d *Deps) {
	if few := listen.WarnFewDescriptors(); few != "" {
		fmt.Fprintln(d.Stderr, few)
	}
}

// dialTemporal dials the server that the environment names.
func dialTemporal(ctx context.Context, d *Deps, proof secure.Credentials) (t client.Client, namespace string, err error) {
	options, err := system.FromEnvironment(proof)
	if err != nil {
		return nil, "", err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(d.Stderr, nil)))
	t, err = reach(ctx, options, func(line string) { fmt.Fprintln(d.Stderr, line) })
	return t, options.Namespace, err
}

// reachEvery is the pace at which a role looks for a Temporal server that is away.
const reachEvery = time.Second

// reach dials a Temporal server. While it is away it waits, and logs that once: hosts start
// in any order. Other errors, such as a bad certificate, are returned.
func reach(ctx context.Context, o client.Options, tell func(string)) (client.Client, error) {
	for told := false; ; {
		t, err := client.DialContext(ctx, o)
		if err == nil {
			look := func(ctx context.Context) error {
				// Frontends learn of namespaces after DescribeNamespace has them.
				_, err := t.DescribeWorkflowExecution(ctx, activities.FleetID, "")
				return err
			}
			if err := awaitNamespace(ctx, look, o.Namespace, o.HostPort, tell); err != nil {
				t.Close()
				return nil, err
			}
			return t, nil
		}
		why := secure.Explain(err, o.HostPort)
		var away *serviceerror.Unavailable
		if !errors.As(err, &away) && !errors.Is(err, context.DeadlineExceeded) || why != err {
			return nil, fmt.Errorf("the Temporal server at %s cannot be used: %w", o.HostPort, why)
		}
		if !told {
			tell(fmt.Sprintf("no Temporal server answers at %s; waiting for one (%v)", o.HostPort, err))
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no Temporal server answers at %s: %w", o.HostPort, err)
		case <-time.After(reachEvery):
		}
	}
}

// namespaceWithin is how long a server that answers may take to have its namespace.
const namespaceWithin = time.Minute

// awaitNamespace waits, and reports so once, while look finds no namespace: servers open
// their port before they make it. Other errors of look are left to the next call.
func awaitNamespace(ctx context.Context, look func(context.Context) error, namespace, at string, tell func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceWithin)
	defer cancel()
	for told := false; ; told = true {
		var missing *serviceerror.NamespaceNotFound
		if !errors.As(look(ctx), &missing) {
			return nil
		}
		if !told {
			tell(fmt.Sprintf("the Temporal server at %s has no namespace %q yet; waiting %v for it", at, namespace, namespaceWithin))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Temporal server at %s has no namespace %q; make it, or set TEMPORAL_NAMESPACE to one that is there: %w", at, namespace, missing)
		case <-time.After(reachEvery):
		}
	}
}

// newDispatcherCommand makes harpagon dispatcher.
func newDispatcherCommand(d *Deps) *cobra.Command {
	var o roles.DispatcherOptions
	var security securityFlags
	c := &cobra.Command{
		Use:   "dispatcher",
		Short: "Decide for gateways which requests run when and where",
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
	c.Flags().StringVar(&o.Name, "name", name, "name of this dispatcher, unique in the fleet")
	c.Flags().Lookup("name").DefValue = "its own name"
	c.Flags().StringVar(&o.Record, "record", "", recordUsage)
	registerKeepalive(c, &o.Keepalive)
	registerConnections(c, &o.Connections)
	security.Register(c)
	return c
}

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
database are one cluster: each takes over for one that is gone. The first creates the
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
	c.Flags().IntVar(&o.Postgres.Shards, "shards", 0, "number of shards of the workflow histories, fixed when the database is created; 0 means 128")
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

// offered are the devices of a worker: those of this machine, or emulated ones, so many of
// each kind.
func offered(local devices.Config, gpus bool, emulate map[string]int) ([]placement.Device, error) {
	if kind := local.Kind; kind != "" && !pipelines.IsName(kind) {
		return nil, fmt.Errorf("--hardware %q cannot name a kind of hardware: use letters, digits, dots, hyphens and underscores, and start with a letter or digit", kind)
	}
	if len(emulate) > 0 && (local.Cores != 0 || local.Kind != "" || gpus) {
		return nil, errors.New("a worker offers what is there or what is not; leave out --cores, --hardware and --gpus, or --emulate")
	}
	var kinds []pipelines.Hardware
	for _, kind := range slices.Sorted(maps.Keys(emulate)) {
		if !pipelines.IsName(kind) || emulate[kind] < 1 {
			return nil, fmt.Errorf("--emulate %s=%d offers nothing; write KIND=N with N of at least 1, such as v100=50", kind, emulate[kind])
		}
		kinds = append(kinds, pipelines.Hardware{Name: kind, Count: emulate[kind]})
	}
	if len(kinds) > 0 {
		return devices.Emulated(local.Host, kinds, 0), nil
	}
	if gpus {
		local.GPUs = devices.NVIDIA()
	}
	return devices.Local(local)
}
