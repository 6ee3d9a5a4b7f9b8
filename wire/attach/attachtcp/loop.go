package attachtcp

import (
	"context"
	"net"

	"github.com/harpagon/harpagon/wire/attach"
)

// Loop opens a stream over the loopback interface and gives both of its ends, to
// measure the way. It ends with ctx.
func (d Dialer) Loop(ctx context.Context) (gateway, executor attach.Stream, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	accepted := make(chan attach.Stream, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- Serve(ctx, l, d.Options, func(s attach.Stream) error {
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
