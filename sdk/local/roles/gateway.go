package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/console"
	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/gateway/tracing"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// DefaultMeasureEvery is the interval at which a gateway sends measures to services; sooner
// where requests are lost.
const DefaultMeasureEvery = 5 * time.Second

// LocalGateway is the address that tasks carry where gateway and executors
// share a process.
const LocalGateway = "in-process"

// Limits bound what callers can make a gateway hold.
type Limits struct {
	Bytes         int64 // of requests under way; 0 bounds nothing
	PipelineBytes int64 // of those to one pipeline; 0 bounds nothing
	Connections   int   // of each port; 0 means what package listen keeps

	Regions *oip.Regions // memory that callers on this machine may share; nil for none
}

// GatewayOptions describes a gateway. Addresses are HOST:PORT, port 0 takes
// any that is free. One that other hosts can reach needs a token.
type GatewayOptions struct {
	HTTPAddr   string // for requests; empty serves none over HTTP
	GRPCAddr   string // for requests; empty serves none over gRPC
	AttachAddr string // for executors on other hosts; empty accepts only Pipe

	// Name of the gateway in the fleet, where there is one of a name: a process that
	// joins takes it over. Empty means the host's name and the port.
	Name string

	// Notice is how long the gateway goes on taking requests after it has reported not to
	// be ready any more, so that load balancers leave it; see RunGateway.
	Notice time.Duration

	// Advertise is the address at which workers reach AttachAddr; empty means
	// AttachAddr itself.
	Advertise string

	// Dispatchers are the addresses of those that decide for this gateway, or OfFleet
	// alone for those that have joined the fleet; none has it decide itself.
	Dispatchers []string

	// Keepalive is how long executors and dispatchers may be silent before they count
	// as gone; 0 means keepalive.DefaultPatience.
	Keepalive time.Duration

	// UI is the address of Temporal's UI, and Namespace that of the services, for
	// the console's links; both may be empty.
	UI, Namespace string

	Credentials  secure.Credentials // required of clients and executors
	Limits       Limits
	Version      string        // of the program
	MeasureEvery time.Duration // 0 means DefaultMeasureEvery
	Gateway      gateway.Options

	// Record is the file that a recording is written to (see package recording) when the role
	// ends and when the process gets SIGUSR1. Empty means one in the folder for temporary
	// files, and only on the signal.
	Record string
	Log    func(string) // receives notes on recordings; may be nil

	Logger *slog.Logger // of what goes wrong with requests and of what is installed; may be nil
}

// Gateway is the role that takes requests.
type Gateway struct {
	Gateway *gateway.Gateway
	HTTP    string // HOST:PORT; empty without
	GRPC    string // HOST:PORT; empty without
	Attach  string // HOST:PORT that executors dial, LocalGateway without

	Bytes *gateway.Bytes // of requests under way

	secured bool              // HTTP is over TLS
	Member  activities.Member // of the fleet

	front     *front
	followers *followers
	learns    bool // of dispatchers from the fleet

	presence activities.Presence
	replaced chan struct{} // closed when another process has taken the name

	metrics  *metrics.Metrics
	seen     *gateway.StatisticsCollector
	traces   *tracing.Tracer // nil where the environment configures none
	written  *gateway.Logger // nil without
	promises promises
	workers  []worker.Worker
	quit     context.CancelFunc // of the servers
	servers  sync.WaitGroup
	mu       sync.Mutex
	failed   error
	streams  sync.WaitGroup // of Pipe
}

// StartGateway starts the role and joins the fleet, for which a control role must run; ctx
// bounds the start only. Services then install what they serve: until all have, the gateway
// is not ready, and missing services are unavailable.
func StartGateway(ctx context.Context, c client.Client, o GatewayOptions) (*Gateway, error) {
	life, quit := context.WithCancel(context.Background())
	if err := checkRecord(o.Record); err != nil {
		quit()
		return nil, err
	}
	if o.Record != "" && o.Gateway.Record == 0 {
		o.Gateway.Record = recordMemory
	}
	tell := o.Log
	if tell == nil {
		tell = func(string) {}
	}
	o.Gateway.Dispatched = len(o.Dispatchers) > 0
	o.Gateway.StateKey = o.Credentials.Shared()
	o.Gateway.Bytes = gateway.NewBytes(gateway.ByteLimits{Total: o.Limits.Bytes, PerPipeline: o.Limits.PipelineBytes})
	traces, err := tracing.FromEnvironment(ctx, o.Version, tell)
	if err != nil {
		quit()
		return nil, err
	}
	collected, seen, written := metrics.New(), gateway.NewStatistics(), gateway.NewLog(o.Logger)
	commands := control.New(c, control.Options{})
	doubted := newSuspicions(func(host string) {
		go func() {
			ctx, cancel := context.WithTimeout(life, askWithin)
			defer cancel()
			_ = commands.Doubt(ctx, host) // else missing heartbeats reveal it, later
		}()
	})
	missed := &misses{tell: commands.SendMissing}
	o.Gateway.Observer = gateway.Tee(o.Gateway.Observer, collected.Observer(), seen.Observer(), traces.Observer(), written.Observer(), doubted.observer(), missed.observer())
	r := &Gateway{
		Gateway: gateway.New(o.Gateway), Bytes: o.Gateway.Bytes, Attach: LocalGateway, quit: quit, metrics: collected, seen: seen, traces: traces, written: written,
		replaced: make(chan struct{}),
	}
	collected.Registry().MustRegister(metrics.Services(r.deployments), metrics.Trials(r.Gateway.Trials), metrics.Streams(r.Gateway.AllStreams))
	collected.Registry().MustRegister(metrics.Promises(func() map[string]autoscale.Broken { return r.promises.broken(r.Gateway.Services()) }))
	collected.Registry().MustRegister(metrics.DevicesWanted(func() map[string]int {
		ctx, cancel := context.WithTimeout(life, askWithin)
		defer cancel()
		view, err := commands.Fleet(ctx)
		if err != nil {
			return nil // no samples while Temporal is away: an autoscaler then leaves all as it is
		}
		return view.DevicesWanted()
	}))
	collected.Keep(r.Gateway.ObservedNames)
	r.front = newFront(r.Gateway)
	if err := r.listen(life, o, commands); err != nil {
		r.close()
		return nil, err
	}
	r.Attach = withDispatchers(r.Attach, o.Dispatchers)
	r.followers = &followers{
		life: life, gateway: r.Gateway, name: r.member(o.Name).Name, credentials: o.Credentials, patience: o.Keepalive, tell: tell,
	}
	for _, address := range o.Dispatchers {
		if r.learns = address == OfFleet; !r.learns {
			r.followers.add(address)
		}
	}
	if err := r.join(ctx, life, c, commands, o.Name); err != nil {
		r.close()
		return nil, err
	}
	every := o.MeasureEvery
	if every <= 0 {
		every = DefaultMeasureEvery
	}
	missed.gateway, missed.from = r.Member.Name, r.Gateway
	r.servers.Go(func() { missed.keep(life) })
	r.servers.Go(func() { report(life, commands, r.Member.Name, r.Gateway, every, &r.promises) })
	r.servers.Go(func() { newRecorder(o.Record, tell, r.Gateway.Recording).keep(life) })
	return r, nil
}

// listen opens all ports before anything is served, so that a port in use is
// an error at the start.
func (r *Gateway) listen(life context.Context, o GatewayOptions, commands *control.Control) error {
	bytes := o.Gateway.Bytes
	if o.AttachAddr != "" {
		l, err := listen.Frames(o.AttachAddr, o.Credentials, o.Limits.Connections, attach.Refusal(listen.Beyond))
		if err != nil {
			return err
		}
		if r.Attach = o.Advertise; r.Attach == "" {
			r.Attach = l.Addr().String()
		}
		r.serve(l, func() error {
			return attach.Serve(life, l, attach.TCPOptions{Credentials: o.Credentials, Keepalive: o.Keepalive}, r.Gateway.Attach)
		})
	}
	if o.HTTPAddr != "" {
		l, err := listen.HTTP(o.HTTPAddr, o.Credentials, o.Limits.Connections)
		if err != nil {
			return err
		}
		r.HTTP, r.secured = l.Addr().String(), o.Credentials.Identity != nil
		mux := http.NewServeMux()
		mux.Handle(console.Root, httpapi.Counted(bytes, r.console(life, o, commands)))
		mux.Handle("GET /{$}", http.RedirectHandler(console.Root, http.StatusFound))
		mux.Handle("/", httpapi.New(r.front, httpapi.Options{
			Callers: o.Credentials.Guard(), Metrics: r.metrics.Handler(), Version: o.Version, Statistics: r.seen.Of, RejectEarly: r.Gateway.RejectEarly, Bytes: bytes, Regions: o.Limits.Regions,
		}))
		r.serve(l, func() error { return httpapi.Serve(life, l, mux) })
	}
	if o.GRPCAddr != "" {
		l, err := listen.GRPC(o.GRPCAddr, o.Credentials, o.Limits.Connections)
		if err != nil {
			return err
		}
		r.GRPC = l.Addr().String()
		over, err := o.Credentials.Identity.Server()
		if err != nil {
			_ = l.Close()
			return err
		}
		server := grpcapi.New(r.front, grpcapi.Options{Callers: o.Credentials.Guard(), TLS: over, Bytes: bytes, Version: o.Version, Statistics: r.seen.Of, Stopping: life.Done()})
		r.serve(l, func() error { return grpcapi.Serve(life, l, server) })
	}
	return nil
}

// URL is where the gateway answers over HTTP; empty where it does not.
func (r *Gateway) URL() string {
	switch {
	case r.HTTP == "":
		return ""
	case r.secured:
		return "https://" + r.HTTP
	}
	return "http://" + r.HTTP
}

func (r *Gateway) serve(l net.Listener, run func() error) {
	r.servers.Go(func() {
		err := run()
		if err == nil || errors.Is(err, http.ErrServerClosed) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = errors.Join(r.failed, fmt.Errorf("roles: gateway: serving on %s: %w", l.Addr(), err))
	})
}

// Watch adds the devices of the same process to what /metrics serves; call it
// once.
func (r *Gateway) Watch(read func() []devices.Reading) {
	r.metrics.Registry().MustRegister(metrics.Devices(read))
}

// Pipe opens a stream to the gateway from the same process; it is a
// HostOptions.Dial.
func (r *Gateway) Pipe(ctx context.Context, _ string) (attach.Stream, error) {
	near, far := attach.Pipe()
	r.streams.Go(func() { _ = r.Gateway.Attach(far) })
	context.AfterFunc(ctx, func() { _ = near.Close() })
	return near, nil
}

// Stop ends the role: requests under way finish, and no more come in. Stop the
// workers afterwards, not before: requests need their executors.
func (r *Gateway) Stop() error {
	r.quit()
	r.servers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Close lets go of the executors' streams; call it after Stop, once workers of
// the same process have stopped.
func (r *Gateway) Close() { r.close() }

func (r *Gateway) close() {
	r.quit()
	for _, w := range r.workers {
		w.Stop()
	}
	_ = r.Gateway.Close()
	r.servers.Wait()
	if r.followers != nil {
		r.followers.wait()
	}
	r.streams.Wait()
	r.written.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	_ = r.traces.Shutdown(ctx) // what cannot be sent now is lost
}

// lastSpans is how long the last spans may take to be sent.
const lastSpans = 2 * time.Second

// report sends every service that had requests the gateway's measures of it.
func report(ctx context.Context, commands *control.Control, name string, from *gateway.Gateway, every time.Duration, kept *promises) {
	tick := time.NewTicker(min(size.LookEvery, every))
	defer tick.Stop()
	all := map[string]*size.Reports{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		services := from.Services()
		maps.DeleteFunc(all, func(service string, _ *size.Reports) bool { return !slices.Contains(services, service) })
		for _, service := range services {
			reports := all[service]
			if reports == nil {
				reports = &size.Reports{Every: every}
				all[service] = reports
			}
			latest, due := reports.Look(time.Now(), from.Counts(service))
			if !due {
				continue
			}
			m := from.Measures(service)
			kept.see(from, service, m)
			if m.Offered > 0 {
				m.Gateway, m.Latest = name, &latest
				_ = commands.SendMeasures(ctx, m) // a service that cannot be reached now receives the next report
			}
		}
	}
}

// console is the page of this gateway: plans from Temporal, measures from here.
func (r *Gateway) console(life context.Context, o GatewayOptions, commands *control.Control) *console.Console {
	return console.New(life, console.Options{
		Version: o.Version, UI: o.UI, Namespace: o.Namespace, Callers: o.Credentials.Guard().For(secure.Read),
		Source: console.Source{
			Services: func(ctx context.Context) ([]workflows.Status, error) { return commands.Statuses(ctx) },
			Devices:  commands.Devices,
			Measures: func() (all []autoscale.Measures) {
				for _, name := range r.Gateway.Services() {
					all = append(all, r.Gateway.Measures(name))
				}
				return all
			},
			Streams: r.Gateway.StreamLines, Frame: r.Gateway.LastFrame,
			Pipeline: func(name string) (pipelines.Pipeline, bool) {
				d, ok := r.Gateway.Deployment(name)
				return d.Pipeline, ok
			},
		},
	})
}

// deployments are what the gateway serves.
func (r *Gateway) deployments() (all []placement.Deployment) {
	for _, name := range r.Gateway.Services() {
		if d, ok := r.Gateway.Deployment(name); ok {
			all = append(all, d)
		}
	}
	return all
}
