package attachgrpc

import (
	"cmp"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
	"github.com/harpagon/harpagon/wire/keepalive"
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
	pb.RegisterGatewayServer(s, &server{callers: o.Guard().For(secure.Join), patience: cmp.Or(o.Patience, DefaultPatience), keepalive: o.Keepalive, accept: accept})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	err = s.Serve(keepalive.Listener(l))
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
		grpc.KeepaliveParams(grpckeepalive.ServerParameters{MaxConnectionIdle: idleTime}),
		grpc.ConnectionTimeout(DefaultPatience),
	}
}

type server struct {
	pb.UnimplementedGatewayServer
	callers   secure.Guard
	patience  time.Duration // until the first message
	keepalive time.Duration
	silent    silent
	accept    func(attach.Stream) error
}

// mostSilent bounds the streams that have not said who they are.
const mostSilent = 256

// silent counts them.
type silent struct{ n atomic.Int64 }

func (s *silent) enter() bool {
	if s.n.Add(1) <= mostSilent {
		return true
	}
	s.leave()
	return false
}

func (s *silent) leave() { s.n.Add(-1) }

// Attach implements the service.
func (s *server) Attach(stream grpc.BidiStreamingServer[pb.Message, pb.Message]) error {
	if !securegrpc.Admits(stream.Context(), s.callers) {
		return status.Error(codes.Unauthenticated, s.callers.Refusal("the gateway"))
	}
	if !s.silent.enter() {
		return status.Errorf(codes.ResourceExhausted, "%d streams have not said who they are; no more are taken until some have", mostSilent)
	}
	spoken := sync.OnceFunc(s.silent.leave)
	defer spoken()
	near, far := attach.Pipe()
	hello := time.AfterFunc(s.patience, func() {
		attach.Abort(far, status.Errorf(codes.DeadlineExceeded, "no handshake within %v", s.patience))
	})
	defer hello.Stop()
	b := &bridge{conn: stream, far: far}
	b.first = func() {
		hello.Stop()
		spoken()
		if p, ok := peer.FromContext(stream.Context()); ok {
			go b.watch(stream.Context().Done(), keepalive.Of(p.Addr), s.keepalive)
		}
	}
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
