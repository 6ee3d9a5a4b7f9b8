package attachgrpc

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
	"github.com/harpagon/harpagon/wire/keepalive"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
)

// linger is how long after a Close the connection is kept for the gateway to
// read what was sent and to close in its turn.
const linger = 10 * time.Second

// Dialer opens streams to gateways.
type Dialer struct{ Options }

// Dial opens a stream to the gateway at "HOST:PORT". It returns an error when
// nobody answers there; that the gateway does not want the executor shows as an
// error of Recv. The stream ends when ctx ends, or at Close.
func (d Dialer) Dial(ctx context.Context, address string) (attach.Stream, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		err = d.MaySend(host, d.Identity != nil)
	}
	if err != nil {
		return nil, fmt.Errorf("attachgrpc: %q: %w", address, err)
	}
	var dialed atomic.Pointer[keepalive.Conn]
	conn, err := grpc.NewClient("passthrough:///"+address, append(d.options(), grpc.WithContextDialer(
		func(ctx context.Context, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return nil, err
			}
			watched := keepalive.New(c)
			dialed.Store(watched)
			return watched, nil
		}))...)
	if err != nil {
		return nil, fmt.Errorf("attachgrpc: %q is not the address of a gateway: %w", address, err)
	}
	life, end := context.WithCancel(securegrpc.WithToken(ctx, d.Token))
	stream, err := pb.NewGatewayClient(conn).Attach(life)
	if err != nil {
		end()
		_ = conn.Close()
		return nil, fmt.Errorf("attachgrpc: no gateway answers at %s: %w", address, err)
	}
	near, far := attach.Pipe()
	b := &bridge{conn: stream, far: far}
	over := make(chan struct{})
	go func() {
		b.inbound()
		close(over)
	}()
	go b.watch(over, dialed.Load(), d.Keepalive)
	go func() {
		defer end()
		defer conn.Close()
		if b.outbound() == nil && stream.CloseSend() == nil {
			select {
			case <-over:
			case <-time.After(linger):
			}
		}
	}()
	return near, nil
}

func (d Dialer) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(securegrpc.Dial(d.Identity)),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(d.maxMessage()), grpc.MaxCallSendMsgSize(d.maxMessage())),
	}
}
