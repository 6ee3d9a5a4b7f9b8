package gateway

import (
	"net"

	"github.com/harpagon/harpagon/wire/queue"
)

// Follow lets the dispatcher at the other end of a connection decide for the services
// that it owns, and returns when the connection has ended, and why. Of several that own
// a service the one with the highest epoch is obeyed. The gateway says its name and the
// token. It is for gateways that are Dispatched.
func (g *Gateway) Follow(c net.Conn, name, token string) error {
	conn, err := queue.Open(c, queue.Gateway, queue.Dispatcher, name, token, nil)
	if err != nil {
		return err
	}
	return g.queue.Follow(conn, g)
}

// Followed says whether a dispatcher decides for the service now.
func (g *Gateway) Followed(service string) bool { return g.queue.Owned(service) }
