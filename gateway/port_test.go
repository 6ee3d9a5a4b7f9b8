package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// single is a gateway that serves pipeline "p", one module of a vector, on one device.
func single(t testing.TB, o gateway.Options, elements int64, slo, planned time.Duration, batch int, sleep func(context.Context, time.Duration) error, around ...func(executors.Engine) executors.Engine) *gateway.Gateway {
	port := func(name string) []pipelines.Port {
		return []pipelines.Port{{Name: name, Datatype: wire.FP32, Shape: []int64{elements}}}
	}
	profile := pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: planned}}}
	device := placement.Device{Host: "h", Name: "cpu/0", Hardware: "cpu"}
	d := placement.Deployment{
		Generation: 1,
		Pipeline: pipelines.Pipeline{
			Name: "p", SLO: slo, Inputs: port("x"), Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
			Modules: []pipelines.Module{{Name: "m", Engine: "emulated", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}, Profile: profile}},
		},
		Plan: plan.Plan{Modules: []plan.Module{{Name: "m", Budget: planned, Groups: []plan.Group{
			{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: planned, Machines: 1},
		}}}},
		Slots: []placement.Slot{{Executor: "m-1", Pipeline: "p", Module: "m", Batch: batch, Duration: planned, Hardware: "cpu", Device: device.Name, Host: "h"}},
	}
	g := gateway.New(o)
	engine := emulated.New(emulated.Options{
		Signatures: func(pipelines.Module) (pipelines.Signature, error) {
			return pipelines.Signature{Inputs: port("x"), Outputs: port("y")}, nil
		},
		Sleep: sleep,
	})
	for _, wrap := range around {
		engine = wrap(engine)
	}
	host := &executors.Host{
		Name: "h", Devices: []placement.Device{device}, Engines: []executors.Engine{engine},
		Dial: func(context.Context, string) (attach.Stream, error) {
			ours, theirs := attach.Pipe()
			go func() { _ = g.Attach(theirs) }()
			return ours, nil
		},
	}
	ctx, quit := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		assert.NoError(t, host.RunExecutor(ctx, executors.NewTask(d, d.Slots[0], ""), executors.Observer{}))
	})
	t.Cleanup(func() {
		quit()
		running.Wait()
		require.NoError(t, g.Close())
	})
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	return g
}

// sharedPrefix begins the names of memory that clients may share.
const sharedPrefix = "client-test-"

// ports are those of a gateway.
type ports struct{ http, secured, grpc string }

// open serves a gateway as its role does, over HTTP, over HTTP with TLS, and over gRPC.
func open(t testing.TB, g *gateway.Gateway, held *gateway.Bytes, i *secure.Identity) (at ports) {
	ctx, quit := context.WithCancel(context.Background())
	done := make(chan error, 3)
	t.Cleanup(func() {
		quit()
		for range cap(done) {
			require.NoError(t, <-done)
		}
	})
	regions, err := oip.NewRegions(sharedPrefix)
	require.NoError(t, err)
	for to, c := range map[*string]secure.Credentials{&at.http: {}, &at.secured: {Identity: i}} {
		l, err := listen.HTTP("127.0.0.1:0", c, 0)
		require.NoError(t, err)
		*to = l.Addr().String()
		go func() {
			done <- httpapi.Serve(ctx, l, httpapi.New(g, httpapi.Options{RejectEarly: g.RejectEarly, Bytes: held, Regions: regions}))
		}()
	}
	l, err := listen.GRPC("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	at.grpc = l.Addr().String()
	go func() { done <- grpcapi.Serve(ctx, l, grpcapi.New(g, grpcapi.Options{Bytes: held})) }()
	return at
}

// TestWhoHangsUpLeavesTheQueue has callers whose requests wait behind another's for a device,
// and who go, each in another way: the request is cancelled, and reaches no device.
func TestWhoHangsUpLeavesTheQueue(t *testing.T) {
	const body = `{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}`
	const next = "GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"
	head := fmt.Sprintf("POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", len(body))
	large := fmt.Sprintf("POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s%*s", 150_000, body, 150_000-len(body), "")
	i := securetest.New(t, "ours").Identity(t)
	begun, ended := make(chan bool, 10), make(chan gateway.Outcome, 10)
	busy, free := make(chan bool), make(chan bool)
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	g := single(t, gateway.Options{Observer: gateway.Observer{
		RequestBegin: func(gateway.RequestInfo) { begun <- true },
		RequestEnd:   func(r gateway.RequestInfo) { ended <- r.Outcome },
	}}, 2, 2*time.Hour, time.Minute, 1, func(context.Context, time.Duration) error {
		busy <- true
		<-free
		return nil
	})
	at := open(t, g, held, i)
	vector := []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2}, 2)}}

	raw := func(secured bool, text string, half bool) func() (leave func()) {
		return func() func() {
			to := at.http
			if secured {
				to = at.secured
			}
			below, err := net.Dial("tcp", to)
			require.NoError(t, err)
			t.Cleanup(func() { _ = below.Close() })
			c := below
			if secured {
				c = tls.Client(below, i.Client("127.0.0.1"))
			}
			_, err = io.WriteString(c, text)
			require.NoError(t, err)
			return func() {
				if half {
					require.NoError(t, below.(*net.TCPConn).CloseWrite())
				} else {
					require.NoError(t, below.Close())
				}
			}
		}
	}
	overTwo := func() func() {
		ctx, leave := context.WithCancel(t.Context())
		transport := &http.Transport{TLSClientConfig: i.Client("127.0.0.1"), ForceAttemptHTTP2: true}
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at.secured+"/v2/models/p/infer", bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		go func() {
			_, err := (&http.Client{Transport: transport}).Do(q)
			assert.ErrorIs(t, err, context.Canceled)
			transport.CloseIdleConnections()
		}()
		return leave
	}
	overCalls := func(close bool) func() func() {
		return func() func() {
			ctx, leave := context.WithCancel(t.Context())
			c, err := grpc.NewClient(at.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			t.Cleanup(func() { leave(); _ = c.Close() })
			go func() {
				_, err := pb.NewGRPCInferenceServiceClient(c).ModelInfer(ctx, oipgrpc.EncodeRequest(&wire.InferRequest{Pipeline: "p", Inputs: vector}, "", 0))
				assert.Error(t, err)
			}()
			if close {
				return func() { require.NoError(t, c.Close()) }
			}
			return leave
		}
	}
	type way struct {
		come func() (leave func())
		half bool // its request is never whole
	}
	ways := map[string]way{
		"http/2":         {overTwo, false},
		"grpc":           {overCalls(false), false},
		"grpc, for good": {overCalls(true), false},
	}
	for _, secured := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			name := fmt.Sprintf("http, tls %v, half %v: ", secured, half)
			ways[name+"all is read"] = way{raw(secured, head+body, half), false}
			ways[name+"a large body"] = way{raw(secured, large, half), false}
			ways[name+"a line is behind it"] = way{raw(secured, head+body+"\r\n", half), false}
			ways[name+"a line is behind a large body"] = way{raw(secured, large+"\r\n", half), false}
			ways[name+"a request is behind it"] = way{raw(secured, large+next, half), false}
			ways[name+"the body is not whole"] = way{raw(secured, head+body[:9], half), true}
		}
	}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			first := make(chan error, 1)
			ask := func() {
				_, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "p", Inputs: vector})
				first <- err
			}
			go ask()
			<-begun
			<-busy // the device, with the first request
			leave := w.come()
			if w.half {
				require.Eventually(t, func() bool { return held.Now() > 0 }, time.Minute, time.Millisecond)
				leave()
			} else {
				<-begun
				leave()
				require.Equal(t, gateway.Cancelled, <-ended)
			}
			require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
			free <- true
			require.NoError(t, <-first)
			require.Equal(t, gateway.Completed, <-ended)
			go ask()
			<-begun
			<-busy // with one that was sent last, and not with the one whose caller has gone
			free <- true
			require.NoError(t, <-first)
			require.Equal(t, gateway.Completed, <-ended)
			require.Empty(t, begun)
		})
	}
}
