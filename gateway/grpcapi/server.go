package grpcapi

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
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
	Callers    secure.Guard // who may ask; the zero one lets everybody
	MaxMessage int          // bytes of a request or an answer; 0 means DefaultMaxMessage
	TLS        *tls.Config  // see secure.Identity; nil means none
	Version    string       // of the program, for the server metadata

	// Bytes bounds the memory of requests under way and of answers that are not written
	// yet; nil bounds nothing.
	Bytes *gateway.Bytes

	// Statistics tells of a pipeline what was seen; nil leaves ModelStatistics out.
	Statistics func(pipeline string) gateway.PipelineStatistics
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

// scopeOf is what a named token must be good for: the model that is called, or else to
// look; any will do to hear what server this is.
func scopeOf(q any) secure.Scope {
	switch q := q.(type) {
	case *oipgrpc.Call:
		return secure.InferAt(q.Request.Pipeline)
	case *pb.ModelMetadataRequest:
		return secure.InferAt(q.GetName())
	case *pb.ModelReadyRequest:
		return secure.InferAt(q.GetName())
	case *pb.ServerMetadataRequest:
		return ""
	}
	return secure.Read
}

// guard asks who calls, and lets anybody see whether the server is alive.
func (s *server) guard(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	admitted, err := s.admit(ctx, q)
	if err != nil && !isOpen(info.FullMethod) {
		return nil, err
	}
	return next(admitted, q)
}

// admit asks who calls, and notes that.
func (s *server) admit(ctx context.Context, q any) (context.Context, error) {
	if s.options.Callers.Open() {
		return ctx, nil
	}
	within := wire.WithTenant(ctx, securegrpc.Who(ctx, s.options.Callers))
	if callers := s.options.Callers.For(scopeOf(q)); !securegrpc.Admits(ctx, callers) {
		return within, status.Error(codes.Unauthenticated, callers.Refusal("this gateway"))
	}
	return within, nil
}
