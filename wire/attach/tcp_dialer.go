package attach

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// Dialer opens streams to gateways.
type Dialer struct{ TCPOptions }

// Dial opens a stream to the gateway at "HOST:PORT". It returns an error when
// nobody answers there, or something else; that the gateway does not want the executor
// shows as an error of Recv. The stream ends when ctx ends, or at Close.
func (d Dialer) Dial(ctx context.Context, address string) (Stream, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		err = d.MaySend(host, d.Identity != nil)
	}
	if err != nil {
		return nil, fmt.Errorf("attach: %q: %w", address, err)
	}
	conn, err := d.greet(ctx, host, address)
	if err != nil {
		return nil, fmt.Errorf("attach: no gateway answers at %s: %w", address, secure.Explain(err, address))
	}
	s := &tcpStream{conn: conn, peer: address, limit: d.maxMessage(), ends: true}
	unlink := context.AfterFunc(ctx, func() { s.abort(ctx.Err()) })
	go func() {
		<-conn.Over()
		unlink()
	}()
	go s.watch(d.Keepalive)
	return s, nil
}

// greet connects, and hears that a gateway is there.
func (d Dialer) greet(ctx context.Context, host, address string) (*stream.Conn, error) {
	ctx, end := context.WithTimeout(ctx, connectTime)
	defer end()
	var over *tls.Config
	if d.Identity != nil {
		over = d.Identity.Client(host)
	}
	c, err := stream.Dial(ctx, address, over)
	if err != nil {
		return nil, err
	}
	conn := d.open(c, false)
	until := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer until()
	conn.Send(preamble[:])
	conn.Send(frame(kindToken, d.Token))
	if _, err := greeted(conn, "what answers there"); err != nil {
		conn.End(err)
		return nil, err
	}
	return conn, nil
}
