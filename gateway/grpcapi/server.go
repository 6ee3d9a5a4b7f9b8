package grpcapi

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // requests may come compressed
	"google.golang.org/grpc/experimental"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
)

// DefaultMaxMessage is the largest message in bytes, the same as over HTTP.
const DefaultMaxMessage = 64 << 20

// window is what may be under way on a connection before the other side has
// read it; large enough for pictures.
const window = 4 << 20

// headers is how many bytes those of a call may have, as over HTTP.
const headers = 16 << 10

// streams bounds the calls of one connection.
const streams = 4096

// workers is how many goroutines take calls one after the other: their stacks have grown
// already. Calls beyond them have goroutines of their own.
const workers = 64

// handshakeTime is what a connection gets to begin.
const handshakeTime = 10 * time.Second

// shutdownTime is what requests under way get to finish.
const shutdownTime = 10 * time.Second

// Options configures a server. The zero value is good on the loopback
// interface.
type Options struct {
	Callers    secure.Guard // who may call; the zero one admits everybody
	MaxMessage int          // bytes of a request or an answer; 0 means DefaultMaxMessage
	TLS        *tls.Config  // see secure.Identity; nil means none
	Version    string       // of the program, for the server metadata

	// Bytes bounds the memory of requests under way and of answers that are not written
	// yet; nil bounds nothing.
	Bytes *gateway.Bytes

	// Statistics reports what was seen of a pipeline; nil leaves ModelStatistics out.
	Statistics func(pipeline string) gateway.PipelineStatistics

	// Stopping, once closed, ends the calls that would last as long as their callers like:
	// Watch of grpc.health.v1. Where it is nil, Serve waits for them when it stops.
	Stopping <-chan struct{}
}

// server implements the service.
type server struct {
	pb.UnimplementedGRPCInferenceServiceServer
	backend   wire.Backend
	options   Options
	strangers strangers
}

// New makes a server of the protocol. Serve runs it; a program that has other
// services on the same port may register them first.
func New(b wire.Backend, o Options) *grpc.Server {
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	s := &server{backend: b, options: o}
	all := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxSendMsgSize(o.MaxMessage),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.ReadBufferSize(0), // metered has one
		grpc.MaxHeaderListSize(headers),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxConcurrentStreams(streams),
		experimental.BufferPool(pools),
		grpc.InTapHandle(s.tap),
		grpc.NumStreamWorkers(workers),
		grpc.ForceServerCodecV2(codec{oipgrpc.NewCodec(), new(sync.Mutex)}),
	}
	if !o.Callers.Open() {
		all = append(all, grpc.ChainUnaryInterceptor(s.guard))
	}
	over := insecure.NewCredentials()
	if o.TLS != nil {
		over = credentials.NewTLS(o.TLS)
	}
	g := grpc.NewServer(append(all, grpc.Creds(metering{over}))...)
	g.RegisterService(service(), s)
	s.about(g)
	return g
}

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, s *grpc.Server) error {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		hard := time.AfterFunc(shutdownTime, s.Stop)
		defer hard.Stop()
		s.GracefulStop()
	})
	err := s.Serve(listener{l})
	if !stop() {
		<-over
		return nil
	}
	return err
}

// scopeOf is what a named token must be good for: the model that is called, or else reading;
// any token may read what server this is.
func scopeOf(q any) secure.Scope {
	switch q := q.(type) {
	case *oipgrpc.Call:
		return secure.InferAt(q.Request.Pipeline)
	case *pb.ModelMetadataRequest:
		return secure.InferAt(q.GetName())
	case *pb.ModelReadyRequest:
		return secure.InferAt(q.GetName())
	case *pb.ModelConfigRequest:
		return secure.InferAt(q.GetName())
	case *health.HealthCheckRequest:
		if isWhole(q.GetService()) {
			return ""
		}
		return secure.InferAt(q.GetService())
	case *pb.ServerMetadataRequest:
		return ""
	}
	return secure.Read
}

// guard authenticates callers, except where they only check whether the server is alive.
func (s *server) guard(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	admitted, err := s.admit(ctx, q)
	if of, named := q.(*health.HealthCheckRequest); err != nil && (!isOpen(info.FullMethod) || named && !isWhole(of.GetService())) {
		return nil, err
	}
	return next(admitted, q)
}

// admit authenticates the caller and notes it in the context.
func (s *server) admit(ctx context.Context, q any) (context.Context, error) {
	if s.options.Callers.Open() {
		return ctx, nil
	}
	within := wire.WithTenant(ctx, securegrpc.Tenant(ctx, s.options.Callers))
	if callers := s.options.Callers.For(scopeOf(q)); !securegrpc.Admits(ctx, callers) {
		return within, status.Error(codes.Unauthenticated, callers.Refusal("this gateway"))
	}
	return within, nil
}

// States of a model in the list of models.
const (
	stateReady       = "READY"
	stateUnavailable = "UNAVAILABLE"
)

// ServerLive is true while the process serves.
func (s *server) ServerLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

// ServerReady is true when the gateway has received all services, ready or not.
func (s *server) ServerReady(_ context.Context, _ *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	return &pb.ServerReadyResponse{Ready: s.ready()}, nil
}

func (s *server) ready() bool {
	b, ok := s.backend.(interface{ Ready() error })
	return !ok || b.Ready() == nil
}

// ModelReady is true when every module of the pipeline has an executor.
func (s *server) ModelReady(ctx context.Context, q *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	m, err := s.model(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return &pb.ModelReadyResponse{Ready: m.Ready}, nil
}

// ServerMetadata returns the program's version and the extensions.
func (s *server) ServerMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	m := &pb.ServerMetadataResponse{Name: "harpagon", Version: s.options.Version, Extensions: []string{"classification", "model_configuration", "model_repository"}}
	if m.Version == "" {
		m.Version = "dev"
	}
	if s.options.Statistics != nil {
		m.Extensions = append(m.Extensions, "statistics")
	}
	return m, nil
}

// ModelMetadata returns inputs and outputs.
func (s *server) ModelMetadata(ctx context.Context, q *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	m, err := s.model(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	_ = grpc.SetHeader(ctx, oipgrpc.EncodeMore(m)) // of use to our own clients only
	return oipgrpc.EncodeMetadata(m), nil
}

// ModelConfig returns inputs and outputs in the form of the extension model_configuration.
func (s *server) ModelConfig(ctx context.Context, q *pb.ModelConfigRequest) (*pb.ModelConfigResponse, error) {
	m, err := s.model(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return oipgrpc.EncodeConfig(m), nil
}

// RepositoryModelLoad reports what to do instead.
func (s *server) RepositoryModelLoad(_ context.Context, q *pb.RepositoryModelLoadRequest) (*pb.RepositoryModelLoadResponse, error) {
	return nil, oipgrpc.EncodeError(oip.Unmanaged("load", q.GetModelName()))
}

// RepositoryModelUnload reports what to do instead.
func (s *server) RepositoryModelUnload(_ context.Context, q *pb.RepositoryModelUnloadRequest) (*pb.RepositoryModelUnloadResponse, error) {
	return nil, oipgrpc.EncodeError(oip.Unmanaged("unload", q.GetModelName()))
}

// RepositoryIndex lists the pipelines. There is one repository, without a name.
func (s *server) RepositoryIndex(ctx context.Context, q *pb.RepositoryIndexRequest) (*pb.RepositoryIndexResponse, error) {
	all, err := s.models(ctx)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out := &pb.RepositoryIndexResponse{}
	for _, m := range all {
		index := &pb.RepositoryIndexResponse_ModelIndex{Name: m.Pipeline, Version: strconv.Itoa(m.Generation), State: stateReady}
		if !m.Ready {
			if q.GetReady() {
				continue
			}
			index.State, index.Reason = stateUnavailable, m.Reason
		}
		out.Models = append(out.Models, index)
	}
	return out, nil
}

// ModelStatistics adds up since the gateway started, for one pipeline or all.
func (s *server) ModelStatistics(ctx context.Context, q *pb.ModelStatisticsRequest) (*pb.ModelStatisticsResponse, error) {
	if s.options.Statistics == nil {
		return nil, status.Error(codes.Unimplemented, "this server keeps no statistics")
	}
	var all []*wire.Metadata
	var err error
	if q.GetName() == "" {
		all, err = s.models(ctx)
	} else {
		var m *wire.Metadata
		m, err = s.model(ctx, q.GetName(), q.GetVersion())
		all = []*wire.Metadata{m}
	}
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out := &pb.ModelStatisticsResponse{}
	for _, m := range all {
		out.ModelStats = append(out.ModelStats, encodeStatistics(m, s.options.Statistics(m.Pipeline)))
	}
	return out, nil
}

func encodeStatistics(m *wire.Metadata, p gateway.PipelineStatistics) *pb.ModelStatistics {
	out := &pb.ModelStatistics{
		Name: m.Pipeline, Version: strconv.Itoa(m.Generation),
		InferenceCount: uint64(p.Success.Count), ExecutionCount: uint64(p.Executed),
		InferenceStats: &pb.InferStatistics{
			Success: encodeDuration(p.Success), Fail: encodeDuration(p.Fail), Queue: encodeDuration(p.Queue),
			ComputeInput: &pb.StatisticDuration{}, ComputeInfer: encodeDuration(p.Compute), ComputeOutput: &pb.StatisticDuration{},
		},
	}
	if !p.Last.IsZero() {
		out.LastInference = uint64(p.Last.UnixMilli())
	}
	for _, b := range p.Batches {
		out.BatchStats = append(out.BatchStats, &pb.InferBatchStatistics{
			BatchSize: uint64(b.Size), ComputeInput: &pb.StatisticDuration{}, ComputeInfer: encodeDuration(b.Compute), ComputeOutput: &pb.StatisticDuration{},
		})
	}
	return out
}

func encodeDuration(d gateway.DurationStatistics) *pb.StatisticDuration {
	return &pb.StatisticDuration{Count: uint64(d.Count), Ns: uint64(d.Total)}
}

// model is the metadata of a model. A version must be the one that is served.
func (s *server) model(ctx context.Context, name, version string) (*wire.Metadata, error) {
	m, err := s.backend.Metadata(ctx, name)
	if err != nil {
		return nil, err
	}
	if version != "" && version != strconv.Itoa(m.Generation) {
		return nil, wire.Errorf(wire.CodeNotFound, "", "pipeline %q is served in version %d, not %s", m.Pipeline, m.Generation, version)
	}
	return m, nil
}

// models are all that are served, in order of name.
func (s *server) models(ctx context.Context) ([]*wire.Metadata, error) {
	names, err := s.backend.Pipelines(ctx)
	if err != nil {
		return nil, err
	}
	var all []*wire.Metadata
	for _, name := range names {
		if m, err := s.backend.Metadata(ctx, name); err == nil { // or it has just gone
			all = append(all, m)
		}
	}
	return all, nil
}
