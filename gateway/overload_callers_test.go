package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// caller sends a request over a protocol, and reports what became of it.
type caller func(context.Context, *wire.InferRequest) became

// became is the outcome of a request for its caller.
type became int

const (
	answered became = iota
	refused         // as one too many, when it came
	givenUp         // since its deadline could not be met any more
	failed          // otherwise
)

// pipes is a listener whose connections are pipes. A buffered connection would be faster,
// but its deadlines in the past start timers that are due at once, and on those Go's race
// detector crashes in virtual time.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) DialContext(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.accepted <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// overHTTP serves the gateway over HTTP on a network in memory, as the role does.
func overHTTP(ctx context.Context, t *testing.T, g *gateway.Gateway, held *gateway.Bytes) (caller, func()) {
	l := newPipes()
	over := make(chan error, 1)
	go func() {
		over <- httpapi.Serve(ctx, listen.Gate(l), httpapi.New(g, httpapi.Options{RejectEarly: g.RejectEarly, Bytes: held}))
	}()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 4096,
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) },
	}
	client := oip.NewClient(oip.ClientOptions{URL: "http://gateway", Binary: true, HTTP: &http.Client{Transport: transport}})
	ask := func(ctx context.Context, q *wire.InferRequest) became {
		switch _, err := client.Infer(ctx, q, ""); {
		case err == nil:
			return answered
		case errors.Is(err, wire.ErrOverloaded):
			return refused
		case errors.Is(err, wire.ErrDeadline):
			return givenUp
		}
		return failed
	}
	return ask, func() {
		transport.CloseIdleConnections()
		require.NoError(t, <-over)
	}
}

// overGRPC does so over gRPC.
func overGRPC(ctx context.Context, t *testing.T, g *gateway.Gateway, held *gateway.Bytes) (caller, func()) {
	l := newPipes()
	over := make(chan error, 1)
	go func() { over <- grpcapi.Serve(ctx, l, grpcapi.New(g, grpcapi.Options{Bytes: held})) }()
	conn, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(t, err)
	service := pb.NewGRPCInferenceServiceClient(conn)
	ask := func(ctx context.Context, q *wire.InferRequest) became {
		_, err := service.ModelInfer(ctx, oipgrpc.EncodeRequest(q, "", 0))
		switch status.Code(err) {
		case codes.OK:
			return answered
		case codes.ResourceExhausted:
			return refused
		case codes.DeadlineExceeded:
			return givenUp
		}
		return failed
	}
	return ask, func() {
		require.NoError(t, conn.Close())
		require.NoError(t, <-over)
	}
}

// sent is what became of a request.
type sent struct {
	at, took time.Duration // since the first, and until its caller had the outcome
	became
}

// in reports whether it became that within the time.
func (s *sent) in(slo time.Duration, b became) bool { return s.became == b && s.took <= slo }

// offer sends requests at an even rate for a while.
func offer(ask caller, rate float64, span time.Duration, body []wire.NamedTensor) []sent {
	all := make([]sent, int(rate*span.Seconds()))
	var group sync.WaitGroup
	begin := time.Now()
	for i := range all {
		all[i].at = time.Duration(float64(i) / rate * float64(time.Second))
		time.Sleep(time.Until(begin.Add(all[i].at)))
		group.Go(func() {
			all[i].became = ask(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: body})
			all[i].took = time.Since(begin) - all[i].at
		})
	}
	group.Wait()
	return all
}

// emulatedPair is a gateway that serves pipeline "p", two modules in a row of a vector, on
// emulated engines with a device each; batches of four, which take took(size).
func emulatedPair(ctx context.Context, t *testing.T, elements int64, slo time.Duration, rate float64, took func(batch int) time.Duration) (*gateway.Gateway, func()) {
	const planned, window = 20 * time.Millisecond, 40 * time.Millisecond
	port := func(name string) []pipelines.Port {
		return []pipelines.Port{{Name: name, Datatype: wire.FP32, Shape: []int64{elements}}}
	}
	signature := pipelines.Signature{Inputs: port("x"), Outputs: port("y")}
	profile := pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: planned / 2}, {Hardware: "cpu", Batch: 4, Concurrency: 1, Duration: planned},
	}}
	d := placement.Deployment{Generation: 1, Pipeline: pipelines.Pipeline{
		Name: "p", SLO: slo, Rate: rate, Arrivals: "poisson", Inputs: port("x"),
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "n", Port: "y"}}},
	}}
	host := &executors.Host{Name: "h", Engines: []executors.Engine{emulated.New(emulated.Options{
		Signatures: func(pipelines.Module) (pipelines.Signature, error) { return signature, nil },
		Duration:   func(_ executors.Model, batch int) time.Duration { return took(batch) },
		Sleep:      osutil.SleepTimer, // in virtual time
	})}}
	from := pipelines.Ref{Port: "x"}
	for _, name := range []string{"m", "n"} {
		device := placement.Device{Host: host.Name, Name: "cpu/" + name, Hardware: "cpu"}
		host.Devices = append(host.Devices, device)
		d.Pipeline.Modules = append(d.Pipeline.Modules, pipelines.Module{
			Name: name, Engine: "emulated", Model: name, Inputs: []pipelines.Binding{{Name: "x", From: from}}, Profile: profile,
		})
		from = pipelines.Ref{Module: name, Port: "y"}
		d.Plan.Modules = append(d.Plan.Modules, plan.Module{Name: name, Budget: window + planned, Groups: []plan.Group{
			{Hardware: "cpu", Batch: 4, Concurrency: 1, Duration: planned, Machines: 1, Window: window, Period: window},
		}})
		d.Slots = append(d.Slots, placement.Slot{
			Executor: name + "-1", Pipeline: "p", Module: name, Batch: 4, Window: window, Duration: planned, Hardware: "cpu", Device: device.Name, Host: host.Name,
		})
	}
	g := gateway.New(gateway.Options{})
	host.Dial = func(context.Context, string) (attach.Stream, error) {
		ours, theirs := attach.Pipe()
		go func() { _ = g.Attach(theirs) }()
		return ours, nil
	}
	ctx, quit := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, s := range d.Slots {
		running.Go(func() { assert.NoError(t, host.RunExecutor(ctx, executors.NewTask(d, s, ""), executors.Observer{})) })
	}
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	return g, func() {
		quit()
		running.Wait()
		require.NoError(t, g.Close())
	}
}

// TestOverloadOfCallers: what can serve 100 requests/s is offered 0.9, 1, 3 and 10 times as
// many over HTTP and gRPC, and then 0.9 times. Goodput stays at nine tenths of its peak or
// more; every request that is not answered in time is refused when it comes, or given up by its
// deadline, with the error for it; of what is taken in hardly any is given up, and that before
// devices have worked for it in vain, or goodput would show; requests hold no more bytes than
// they may; and five seconds after the overload all are in time again. Batches take twice as
// long as profiled.
func TestOverloadOfCallers(t *testing.T) {
	const slo, span, capacity, recovery = 400 * time.Millisecond, 10 * time.Second, 100, 5 * time.Second
	const elements, bound = 2048, 1 << 20 // 8 KiB a request
	body := []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(make([]float32, elements), elements)}}
	for name, over := range map[string]func(context.Context, *testing.T, *gateway.Gateway, *gateway.Bytes) (caller, func()){"http": overHTTP, "grpc": overGRPC} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, stopped := emulatedPair(t.Context(), t, elements, slo, capacity, func(batch int) time.Duration {
					return time.Duration(20+20*(batch-1)/3) * time.Millisecond
				})
				defer stopped()
				ctx, quit := context.WithCancel(t.Context())
				held := gateway.NewBytes(gateway.ByteLimits{Total: bound})
				ask, closed := over(ctx, t, g, held)
				defer closed()
				defer quit()

				var goodput []float64
				for _, times := range []float64{0.9, 1, 3, 10} {
					count := make([]int, failed+1)
					all := offer(ask, times*capacity, span, body)
					for _, s := range all {
						if !s.in(slo, s.became) {
							s.became = failed
						}
						count[s.became]++
					}
					good := count[answered]
					goodput = append(goodput, float64(good)/span.Seconds())
					t.Logf("%v times: %.1f/s in time, of %d %d refused and %d given up, at most %d bytes held", times, goodput[len(goodput)-1], len(all), count[refused], count[givenUp], held.Most())
					require.Zero(t, count[failed], "late, or without a word that it could not be")
					require.LessOrEqual(t, count[givenUp], good/10)
				}
				peak := slices.Max(goodput)
				require.GreaterOrEqual(t, peak, 0.9*capacity)
				require.GreaterOrEqual(t, goodput[2], 0.9*peak, "three times")
				require.GreaterOrEqual(t, goodput[3], 0.9*peak, "ten times")

				last := time.Duration(0)
				for _, s := range offer(ask, 0.9*capacity, 2*recovery, body) {
					if !s.in(slo, answered) {
						last = s.at
					}
				}
				t.Logf("afterwards: the last that is not in time was sent after %v", last)
				require.Less(t, last, recovery)
				require.LessOrEqual(t, held.Most(), int64(bound))
				synctest.Wait() // until the server has ended what is answered
				require.Zero(t, held.Now())
			})
		})
	}
}
