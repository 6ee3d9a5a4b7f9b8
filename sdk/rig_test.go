package sdk_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdkgrpc"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// system is a gateway with emulated executors in this process.
type system struct {
	*gateway.Gateway
	inProcess *sdk.Client
	overHTTP  *sdk.Client
	overGRPC  *sdk.Client
	url       string
	rpc       string // address of gRPC
}

// start serves a pipeline "p" of one module with an input and an output "x"
// and "y", both FP32 [2], whose engine needs the duration.
func start(t testing.TB, duration, slo time.Duration, token string, change ...func(*pipelines.Pipeline)) *system {
	signature := pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
		Outputs: []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{2}}},
	}
	module := pipelines.Module{
		Name: "m", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}},
		Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: duration}}},
	}
	d := placement.Deployment{
		Generation: 1,
		Pipeline: pipelines.Pipeline{
			Name: "p", SLO: slo, Inputs: signature.Inputs, Modules: []pipelines.Module{module},
			Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
		},
		Plan:  plan.Plan{Modules: []plan.Module{{Name: "m", Budget: duration, Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: duration, Machines: 1}}}}},
		Slots: []placement.Slot{{Executor: "m-1", Pipeline: "p", Module: "m", Batch: 1, Duration: duration, Hardware: "cpu", Device: "cpu/0", Host: "h"}},
	}
	for _, f := range change {
		f(&d.Pipeline)
	}
	g := gateway.New(gateway.Options{})
	host := &executors.Host{
		Name:    "h",
		Devices: []placement.Device{{Host: "h", Name: "cpu/0", Hardware: "cpu"}},
		Engines: []executors.Engine{emulated.New(emulated.Options{Signatures: func(pipelines.Module) (pipelines.Signature, error) { return signature, nil }})},
		Dial: func(context.Context, string) (attach.Stream, error) {
			ours, theirs := attach.Pipe()
			go func() { _ = g.Attach(theirs) }()
			return ours, nil
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- host.RunExecutor(ctx, executors.NewTask(d, d.Slots[0], ""), executors.Observer{}) }()
	ready, over := context.WithTimeout(ctx, time.Minute)
	defer over()
	require.NoError(t, g.Prepare(ready, d))
	require.NoError(t, g.Install(ready, d))
	served := make(chan error, 2)
	web, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	go func() {
		served <- httpapi.Serve(ctx, web, httpapi.New(g, httpapi.Options{Callers: secure.Credentials{Token: token}.Guard()}))
	}()
	url := "http://" + web.Addr().String()
	client, err := sdk.Dialer{Token: token}.Dial(ready, url)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		served <- grpcapi.Serve(ctx, l, grpcapi.New(g, grpcapi.Options{Callers: secure.Credentials{Token: token}.Guard()}))
	}()
	rpc := "grpc://" + l.Addr().String()
	overGRPC, err := sdk.Dialer{Token: token, GRPC: sdkgrpc.Connect}.Dial(ready, rpc)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, overGRPC.Close())
		require.NoError(t, client.Close())
		cancel()
		for range cap(served) {
			require.NoError(t, <-served)
		}
		require.NoError(t, <-done)
	})
	return &system{Gateway: g, inProcess: sdk.NewClient(g), overHTTP: client, overGRPC: overGRPC, url: url, rpc: rpc}
}

// each runs a test with every transport.
func (s *system) each(t *testing.T, f func(t *testing.T, c *sdk.Client)) {
	for i, c := range []*sdk.Client{s.inProcess, s.overHTTP, s.overGRPC} {
		t.Run([]string{"process", "http", "grpc"}[i], func(t *testing.T) { f(t, c) })
	}
}
