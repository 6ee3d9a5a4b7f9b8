package listen

import (
	"context"
	"errors"
	"net"
	"time"
)

// again is how long accepting rests after it has failed.
const again = 10 * time.Millisecond

// Each has every connection served that comes until life ends, which closes the listener;
// serve starts that and returns. The error is why the listener was closed before.
func Each(life context.Context, l net.Listener, serve func(net.Conn)) error {
	stop := context.AfterFunc(life, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			serve(c)
		case life.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			time.Sleep(again) // out of file descriptors, most likely
		}
	}
}
