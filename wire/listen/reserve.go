package listen

import (
	"net"

	"github.com/harpagon/harpagon/wire/secure"
)

// Reserve finds a port for a server that opens its ports itself, by their numbers: "HOST:PORT",
// by the rules of TCP, where port 0 is any that is free. Nobody who asks for any port is given
// that one until release is called; on systems other than Linux, and for IPv6, it is free now
// and may be taken before the server has it.
func Reserve(address string, c secure.Credentials) (at *net.TCPAddr, release func(), err error) {
	if err := c.MayListen(address); err != nil {
		return nil, nil, err
	}
	if to, err := net.ResolveTCPAddr("tcp", address); err == nil && to.Port == 0 && to.IP.To4() != nil {
		if port, release, ok := keep(to.IP.To4()); ok {
			return &net.TCPAddr{IP: to.IP, Port: port}, release, nil
		}
	}
	l, err := TCP(address, c)
	if err != nil {
		return nil, nil, err
	}
	return l.Addr().(*net.TCPAddr), func() {}, l.Close()
}
