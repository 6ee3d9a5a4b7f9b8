package grpcapi

import (
	"context"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// instant is a gateway that serves a pipeline "p" of one module with an input
// and an output "x" and "y", both FP32 [2], whose engine takes no time.
func instant(t testing.TB, o gateway.Options) *gateway.Gateway {
	signature := pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
		Outputs: []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{2}}},
	}
	module := pipelines.Module{
		Name: "m", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}},
		Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: 1, Concurrency: 1}}},
	}
	d := placement.Deployment{
		Generation: 1,
		Pipeline: pipelines.Pipeline{
			Name: "p", SLO: time.Minute, Inputs: signature.Inputs, Modules: []pipelines.Module{module},
			Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
		},
		Plan:  plan.Plan{Modules: []plan.Module{{Name: "m", Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Concurrency: 1, Machines: 1}}}}},
		Slots: []placement.Slot{{Executor: "m-1", Pipeline: "p", Module: "m", Batch: 1, Hardware: "cpu", Device: "cpu/0", Host: "h"}},
	}
	g := gateway.New(o)
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
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return g
}

func TestAGatewayIsABackend(t *testing.T) {
	seen := gateway.NewStatistics()
	c := serve(t, instant(t, gateway.Options{Observer: seen.Observer()}), Options{Statistics: seen.Of})
	out, err := c.ModelInfer(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, "y", out.Outputs[0].Name)
	bad := question()
	bad.Inputs[0].Name = "z"
	_, err = c.ModelInfer(t.Context(), bad)
	require.ErrorContains(t, err, `there is no input "z"`)
	all, err := c.ModelStatistics(t.Context(), &pb.ModelStatisticsRequest{})
	require.NoError(t, err)
	s := all.ModelStats[0]
	require.EqualValues(t, 1, s.InferenceStats.Success.Count)
	require.EqualValues(t, 1, s.InferenceStats.Fail.Count)
	require.EqualValues(t, 1, s.BatchStats[0].BatchSize)
	require.EqualValues(t, 1, s.ExecutionCount)
}

// echo is the same service with nothing behind it.
type echo struct {
	pb.UnimplementedGRPCInferenceServiceServer
}

func (echo) ModelInfer(_ context.Context, q *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	out := &pb.ModelInferResponse{ModelName: q.ModelName, Id: q.Id, RawOutputContents: q.RawInputContents}
	for _, in := range q.Inputs {
		out.Outputs = append(out.Outputs, &pb.ModelInferResponse_InferOutputTensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape})
	}
	return out, nil
}

func serveEcho(t testing.TB) net.Addr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	pb.RegisterGRPCInferenceServiceServer(s, echo{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr()
}

// Sides of the same payload in the same run: a pipeline whose engine takes no time, called
// through the stub that gRPC generates for any client and through this project's client, and a
// plain gRPC service that echoes, called through the stub.
//
//	go test -run xxx -bench . ./gateway/grpcapi
func sides(b *testing.B, run func(b *testing.B, ask func() error)) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	stub := func(b *testing.B, to net.Addr) func() error {
		c := pb.NewGRPCInferenceServiceClient(dial(b, to))
		return func() error {
			_, err := c.ModelInfer(context.Background(), question())
			return err
		}
	}
	pipeline := func(b *testing.B) net.Addr { return listening(b, instant(b, gateway.Options{}), Options{Bytes: held}) }
	b.Run("pipeline", func(b *testing.B) { run(b, stub(b, pipeline(b))) })
	b.Run("client", func(b *testing.B) {
		c, err := oipgrpc.NewClient(oipgrpc.ClientOptions{Address: pipeline(b).String(), Streams: true})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		run(b, func() error {
			_, err := c.Infer(context.Background(), asking(), "")
			return err
		})
	})
	b.Run("echo", func(b *testing.B) { run(b, stub(b, serveEcho(b))) })
}

// BenchmarkOverhead is the time of one request at a time.
func BenchmarkOverhead(b *testing.B) {
	sides(b, func(b *testing.B, ask func() error) {
		var times []time.Duration
		b.ReportAllocs()
		for b.Loop() {
			begin := time.Now()
			if err := ask(); err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
	})
}

// BenchmarkThroughput has 32 callers for every core, with one connection.
func BenchmarkThroughput(b *testing.B) {
	sides(b, func(b *testing.B, ask func() error) {
		b.ReportAllocs()
		b.SetParallelism(32)
		begin := time.Now()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "requests/s")
		b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "cores")
	})
}
