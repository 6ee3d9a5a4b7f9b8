package attachgrpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
)

// Serve accepts executors on the listener until ctx ends. accept serves one
// stream and blocks until it is over, as Gateway.Attach does; its error is
// what the executor's Recv returns.
func Serve(ctx context.Context, l net.Listener, o Options, accept func(attach.Stream) error) error {
	s := grpc.NewServer(serverOptions(o)...)
	pb.RegisterGatewayServer(s, &server{token: digest(o.Token), open: o.Token == "", accept: accept})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	err := s.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func serverOptions(o Options) []grpc.ServerOption {
	all := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.maxMessage()),
		grpc.MaxSendMsgSize(o.maxMessage()),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		all = append(all, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return all
}

type server struct {
	pb.UnimplementedGatewayServer
	token  [sha256.Size]byte
	open   bool
	accept func(attach.Stream) error
}

func digest(token string) [sha256.Size]byte { return sha256.Sum256([]byte("Bearer " + token)) }

// Attach implements the service.
func (s *server) Attach(stream grpc.BidiStreamingServer[pb.Message, pb.Message]) error {
	if err := s.authorise(stream.Context()); err != nil {
		return err
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

func (s *server) authorise(ctx context.Context) error {
	if s.open {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, given := range md.Get(tokenKey) {
		sum := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "the gateway asks for a token; start the worker with the gateway's token")
}
