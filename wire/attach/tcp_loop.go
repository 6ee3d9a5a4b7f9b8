package attach

import (
	"context"
	"net"
)

// Loop opens a stream over the loopback interface and gives both of its ends, to
// measure the way. It ends with ctx.
func (d Dialer) Loop(ctx context.Context) (gateway, executor Stream, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	accepted := make(chan Stream, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- Serve(ctx, l, d.TCPOptions, func(s Stream) error {
			accepted <- s
			<-ctx.Done()
			return nil
		})
	}()
	if executor, err = d.Dial(ctx, l.Addr().String()); err != nil {
		return nil, nil, err
	}
	select {
	case gateway = <-accepted:
		return gateway, executor, nil
	case err := <-failed:
		return nil, nil, err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}
