package attachgrpc

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
)

// Serve accepts executors on the listener until ctx ends. accept serves one
// stream and blocks until it is over, as Gateway.Attach does; its error is
// what the executor's Recv returns.
func Serve(ctx context.Context, l net.Listener, o Options, accept func(attach.Stream) error) error {
	over, err := securegrpc.Serve(o.Identity)
	if err != nil {
		return err
	}
	s := grpc.NewServer(append(serverOptions(o), over...)...)
	pb.RegisterGatewayServer(s, &server{callers: o.Guard(), accept: accept})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	err = s.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func serverOptions(o Options) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.maxMessage()),
		grpc.MaxSendMsgSize(o.maxMessage()),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
	}
}

type server struct {
	pb.UnimplementedGatewayServer
	callers secure.Guard
	accept  func(attach.Stream) error
}

// Attach implements the service.
func (s *server) Attach(stream grpc.BidiStreamingServer[pb.Message, pb.Message]) error {
	if !securegrpc.Admits(stream.Context(), s.callers) {
		return status.Error(codes.Unauthenticated, s.callers.Refusal("the gateway"))
	}
	near, far := attach.Pipe()
	b := &bridge{conn: stream, far: far}
	go b.inbound() // ends with the stream, which ends with this call
	sent := make(chan error, 1)
	go func() { sent <- b.outbound() }()
	err := s.accept(near)
	_ = near.Close()
	<-sent
	if err != nil {
		return status.Error(codes.Aborted, err.Error())
	}
	return nil
}
