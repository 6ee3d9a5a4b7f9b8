package gateway

import (
	"net"
	"time"

	"github.com/harpagon/harpagon/wire/queue"
)

// Follow lets the dispatcher at the other end of a connection decide for the services
// that it owns, and returns when the connection has ended, and why. Of several that own
// a service the one with the highest epoch is obeyed. The gateway says its name and the
// token. Patience is how long the dispatcher may be silent before it counts as gone; see
// keepalive.Conn.Listen. It is for gateways that are Dispatched.
func (g *Gateway) Follow(c net.Conn, name, token string, patience time.Duration) error {
	self := queue.Self{Role: queue.Gateway, Name: name, Token: token, Patience: patience}
	conn, err := queue.Open(c, self, queue.Dispatcher, nil)
	if err != nil {
		return err
	}
	return g.queue.Follow(conn, g)
}

// Followed says whether a dispatcher decides for the service now.
func (g *Gateway) Followed(service string) bool { return g.queue.Owned(service) }
