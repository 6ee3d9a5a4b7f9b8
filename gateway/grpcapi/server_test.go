package grpcapi

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
)

// backend answers with its inputs, or by infer where it is set.
type backend struct {
	infer func(context.Context, *wire.InferRequest) (*wire.InferResponse, error)
	ready bool
}

func (b *backend) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if b.infer != nil {
		return b.infer(ctx, q)
	}
	return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: 4, Outputs: q.Inputs, Elapsed: 9,
		Stages: []wire.Stage{{Module: "m", Items: 1, Critical: true, Compute: 9}}}, nil
}

func (b *backend) Metadata(_ context.Context, name string) (*wire.Metadata, error) {
	if name != "p" {
		return nil, wire.Errorf(wire.CodeNotFound, "", "pipeline %q is not served here", name)
	}
	return &wire.Metadata{Pipeline: "p", Generation: 4, Ready: b.ready, Reason: "no executor", SLO: time.Second,
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}}, nil
}

func (b *backend) Pipelines(context.Context) ([]string, error) { return []string{"p"}, nil }

// serve starts a server on any port and returns a client.
func serve(t testing.TB, b wire.Backend, o Options) pb.GRPCInferenceServiceClient {
	return pb.NewGRPCInferenceServiceClient(dial(t, listening(t, b, o)))
}

// listening starts a server on any port and returns its address.
func listening(t testing.TB, b wire.Backend, o Options) net.Addr {
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, quit := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- Serve(ctx, l, New(b, o)) }()
	t.Cleanup(func() {
		quit()
		require.NoError(t, <-over)
	})
	return l.Addr()
}

func dial(t testing.TB, to net.Addr) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func question() *pb.ModelInferRequest { return oipgrpc.EncodeRequest(asking(), "", 0) }

func asking() *wire.InferRequest {
	return &wire.InferRequest{
		ID: "7", Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2}, 2)}},
	}
}

func TestAboutTheServer(t *testing.T) {
	b := &backend{ready: true}
	c := serve(t, b, Options{Version: "1.2"})
	ctx := t.Context()

	live, err := c.ServerLive(ctx, &pb.ServerLiveRequest{})
	require.NoError(t, err)
	require.True(t, live.Live)
	about, err := c.ServerMetadata(ctx, &pb.ServerMetadataRequest{})
	require.NoError(t, err)
	require.Equal(t, "1.2", about.Version)
	m, err := c.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "p", Version: "4"})
	require.NoError(t, err)
	require.Equal(t, []string{"4"}, m.Versions)
	require.Equal(t, []int64{2}, m.Inputs[0].Shape)
	_, err = c.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "p", Version: "3"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = c.ModelReady(ctx, &pb.ModelReadyRequest{Name: "q"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = c.ModelStatistics(ctx, &pb.ModelStatisticsRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))

	for _, ready := range []bool{true, false} {
		b.ready = ready
		server, err := c.ServerReady(ctx, &pb.ServerReadyRequest{})
		require.NoError(t, err)
		require.True(t, server.Ready, "whatever a service lacks")
		model, err := c.ModelReady(ctx, &pb.ModelReadyRequest{Name: "p"})
		require.NoError(t, err)
		require.Equal(t, ready, model.Ready)
	}
	all, err := c.RepositoryIndex(ctx, &pb.RepositoryIndexRequest{})
	require.NoError(t, err)
	require.Equal(t, "UNAVAILABLE", all.Models[0].State)
	require.Equal(t, "no executor", all.Models[0].Reason)
	all, err = c.RepositoryIndex(ctx, &pb.RepositoryIndexRequest{Ready: true})
	require.NoError(t, err)
	require.Empty(t, all.Models)
}

func TestInfer(t *testing.T) {
	c := serve(t, &backend{ready: true}, Options{})
	out, err := c.ModelInfer(t.Context(), question())
	require.NoError(t, err)
	require.Len(t, out.RawOutputContents, 1, "raw as the request")
	r, err := oipgrpc.DecodeResponse(out)
	require.NoError(t, err)
	require.Equal(t, "7", r.ID)
	require.Equal(t, 4, r.Generation)
	require.Equal(t, "m", r.Stages[0].Module)

	q := question()
	q.RawInputContents = nil
	q.Inputs[0].Contents = &pb.InferTensorContents{Fp32Contents: []float32{1, 2}}
	q.ModelVersion = "4"
	out, err = c.ModelInfer(t.Context(), q)
	require.NoError(t, err)
	require.Empty(t, out.RawOutputContents)
	require.Equal(t, []float32{1, 2}, out.Outputs[0].Contents.Fp32Contents)
	q.ModelVersion = "3"
	_, err = c.ModelInfer(t.Context(), q)
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestErrorsAreStatuses(t *testing.T) {
	var give error
	c := serve(t, &backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) { return nil, give }}, Options{MaxMessage: 1 << 10})
	for code, want := range map[wire.Code]codes.Code{
		wire.CodeInvalid: codes.InvalidArgument, wire.CodeNotFound: codes.NotFound, wire.CodeOverloaded: codes.ResourceExhausted,
		wire.CodeUnavailable: codes.Unavailable, wire.CodeDeadline: codes.DeadlineExceeded, wire.CodeInternal: codes.Internal,
	} {
		give = &wire.Error{Code: code, Reason: "because", Stage: "m", Budget: 5, Elapsed: 6}
		_, err := c.ModelInfer(t.Context(), question())
		require.Equal(t, want, status.Code(err))
		require.Equal(t, give, oipgrpc.DecodeError(err))
	}
	q := question()
	q.RawInputContents[0] = q.RawInputContents[0][1:]
	_, err := c.ModelInfer(t.Context(), q)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	q.RawInputContents[0] = make([]byte, 2<<10)
	_, err = c.ModelInfer(t.Context(), q)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "beyond the limit")
}

func TestDeadlines(t *testing.T) {
	left := make(chan time.Duration, 1)
	gone := make(chan struct{}, 1)
	c := serve(t, &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		at, ok := ctx.Deadline()
		if !ok {
			at = time.Now().Add(-1)
		}
		left <- time.Until(at)
		if q.ID == "wait" {
			<-ctx.Done()
			gone <- struct{}{}
			return nil, ctx.Err()
		}
		return &wire.InferResponse{}, nil
	}}, Options{})

	_, err := c.ModelInfer(t.Context(), question())
	require.NoError(t, err)
	require.Negative(t, <-left, "no deadline of the caller's")

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err = c.ModelInfer(ctx, question())
	require.NoError(t, err)
	require.InDelta(t, time.Hour, <-left, float64(time.Minute))

	q := question()
	q.Parameters = map[string]*pb.InferParameter{"timeout": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 60e6}}}
	_, err = c.ModelInfer(ctx, q)
	require.NoError(t, err)
	require.Less(t, <-left, 2*time.Minute, "the parameter comes before the deadline")

	q = question()
	q.Id = "wait"
	hasty, hangUp := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, hangUp)
	_, err = c.ModelInfer(hasty, q)
	require.Equal(t, codes.Canceled, status.Code(err))
	<-left
	<-gone
}

func TestToken(t *testing.T) {
	c := serve(t, &backend{ready: true}, Options{Callers: secure.Credentials{Token: "secret"}.Guard()})
	_, err := c.ServerLive(t.Context(), &pb.ServerLiveRequest{})
	require.NoError(t, err)
	_, err = c.ModelInfer(t.Context(), question())
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	_, err = c.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secrex"), question())
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	_, err = c.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret"), question())
	require.NoError(t, err)
}

func TestStatistics(t *testing.T) {
	at := time.UnixMilli(1000)
	c := serve(t, &backend{ready: true}, Options{Statistics: func(name string) gateway.PipelineStatistics {
		require.Equal(t, "p", name)
		return gateway.PipelineStatistics{
			Last: at, Success: gateway.DurationStatistics{Count: 3, Total: 9}, Fail: gateway.DurationStatistics{Count: 1, Total: 2},
			Queue: gateway.DurationStatistics{Count: 3, Total: 4}, Compute: gateway.DurationStatistics{Count: 3, Total: 5}, Executed: 2,
			Batches: []gateway.BatchStatistics{{Size: 1, Compute: gateway.DurationStatistics{Count: 1, Total: 2}}, {Size: 2, Compute: gateway.DurationStatistics{Count: 1, Total: 3}}},
		}
	}})
	for _, name := range []string{"", "p"} {
		out, err := c.ModelStatistics(t.Context(), &pb.ModelStatisticsRequest{Name: name})
		require.NoError(t, err)
		s := out.ModelStats[0]
		require.Equal(t, "4", s.Version)
		require.EqualValues(t, 1000, s.LastInference)
		require.EqualValues(t, 3, s.InferenceCount)
		require.EqualValues(t, 2, s.ExecutionCount)
		require.EqualValues(t, 1, s.InferenceStats.Fail.Count)
		require.EqualValues(t, 5, s.InferenceStats.ComputeInfer.Ns)
		require.EqualValues(t, 2, s.BatchStats[1].BatchSize)
	}
	_, err := c.ModelStatistics(t.Context(), &pb.ModelStatisticsRequest{Name: "q"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

// TestCallsTellWhenTheyCame lets the handler see a call long after it came.
func TestCallsTellWhenTheyCame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not report arrival times")
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	arrived := make(chan time.Time, 1)
	b := &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		arrived <- q.Arrived
		return &wire.InferResponse{Pipeline: q.Pipeline}, nil
	}}
	s := New(b, Options{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listen.Limit(listen.Stamp(tcp), 10, listen.Refusal{}), s) }()
	c := pb.NewGRPCInferenceServiceClient(dial(t, tcp.Addr()))
	const patience = 2 * time.Second
	for known, begin := 0, time.Now(); known < 3; {
		before := time.Now().Round(0)
		_, err := c.ModelInfer(t.Context(), question())
		require.NoError(t, err)
		at := <-arrived
		if at.IsZero() { // the kernel begins some time after the option is set
			if time.Since(begin) > patience {
				t.Skip("the kernel has not begun to note times")
			}
			continue
		}
		known++
		require.WithinRange(t, at, before, time.Now().Round(0))
	}
	stop()
	require.NoError(t, <-done)
}
