package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// watchEvery is how often a watched service is looked at.
const watchEvery = 250 * time.Millisecond

// healthServer is grpc.health.v1: the empty name, or that of the protocol's service, is the
// gateway as ServerReady reports it, any other a pipeline as ModelReady does.
type healthServer struct {
	health.UnimplementedHealthServer
	of *server
}

// isWhole reports that a name stands for the gateway.
func isWhole(service string) bool {
	return service == "" || service == pb.GRPCInferenceService_ServiceDesc.ServiceName
}

// status is that of one name; an error where nothing has it. A pipeline that exists and is
// not installed here is not serving.
func (h healthServer) status(ctx context.Context, service string) (health.HealthCheckResponse_ServingStatus, error) {
	if isWhole(service) {
		return serving(h.of.ready()), nil
	}
	m, err := h.of.backend.Metadata(ctx, service)
	if errors.Is(err, wire.ErrUnavailable) {
		return serving(false), nil
	}
	if err != nil {
		return health.HealthCheckResponse_SERVICE_UNKNOWN, err
	}
	return serving(m.Ready), nil
}

func serving(is bool) health.HealthCheckResponse_ServingStatus {
	if is {
		return health.HealthCheckResponse_SERVING
	}
	return health.HealthCheckResponse_NOT_SERVING
}

// Check implements the protocol.
func (h healthServer) Check(ctx context.Context, q *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	s, err := h.status(ctx, q.GetService())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return &health.HealthCheckResponse{Status: s}, nil
}

// List implements the protocol: the gateway and all pipelines.
func (h healthServer) List(ctx context.Context, _ *health.HealthListRequest) (*health.HealthListResponse, error) {
	all, err := h.of.models(ctx)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out := &health.HealthListResponse{Statuses: map[string]*health.HealthCheckResponse{"": {Status: serving(h.of.ready())}}}
	for _, m := range all {
		out.Statuses[m.Pipeline] = &health.HealthCheckResponse{Status: serving(m.Ready)}
	}
	return out, nil
}

// Watch implements the protocol: a message at once, and one with every change, until the
// caller leaves or the server stops.
func (h healthServer) Watch(q *health.HealthCheckRequest, out health.Health_WatchServer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := health.HealthCheckResponse_UNKNOWN; ; {
		if _, err := h.of.admit(out.Context(), q); err != nil { // a token may have been withdrawn
			return err
		}
		if s, _ := h.status(out.Context(), q.GetService()); s != last {
			if err := out.Send(&health.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			last = s
		}
		select {
		case <-tick.C:
		case <-out.Context().Done():
			return status.FromContextError(out.Context().Err()).Err()
		case <-h.of.options.Stopping:
			return status.Error(codes.Unavailable, "this gateway stops")
		}
	}
}

// registrar registers services whose calls are counted like the protocol's own.
type registrar struct {
	*grpc.Server
	of *server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(d *grpc.ServiceDesc, of any) {
	counted := *d
	counted.Methods, counted.Streams = make([]grpc.MethodDesc, len(d.Methods)), make([]grpc.StreamDesc, len(d.Streams))
	for i, m := range d.Methods {
		m.Handler = ending(m.Handler)
		counted.Methods[i] = m
	}
	for i, s := range d.Streams {
		handle := s.Handler
		s.Handler = func(of any, g grpc.ServerStream) error {
			k := callOf(g.Context())
			defer k.end()
			if err := k.start(g.Context()); err != nil {
				return err
			}
			return handle(of, smallStream{g, k, r.of.options.Bytes})
		}
		counted.Streams[i] = s
	}
	r.Server.RegisterService(&counted, of)
}

// smallStream is a stream of short messages, each of which is forgotten once it is read.
type smallStream struct {
	grpc.ServerStream
	holds *call
	bytes *gateway.Bytes
}

// RecvMsg implements grpc.ServerStream.
func (s smallStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	read := s.bytes.Begin("")
	defer read.Release()
	_ = s.holds.read(proto.Size(m.(proto.Message)), &read) // it is short: there has been room for it
	return nil
}

// about registers health checking and reflection.
func (s *server) about(g *grpc.Server) {
	health.RegisterHealthServer(registrar{g, s}, healthServer{of: s})
	reflection.Register(registrar{g, s})
}
