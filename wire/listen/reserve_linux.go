package listen

import (
	"sync"
	"syscall"
)

// keep binds a socket to a port and does not listen. With SO_REUSEADDR, which Go's listeners
// have, too, the kernel lets others bind that port by its number, and does not choose it for
// port 0.
func keep(ip []byte) (port int, release func(), ok bool) {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, false
	}
	release = sync.OnceFunc(func() { _ = syscall.Close(s) })
	err = syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte(ip)})
	}
	if err == nil {
		var at syscall.Sockaddr
		if at, err = syscall.Getsockname(s); err == nil {
			return at.(*syscall.SockaddrInet4).Port, release, true
		}
	}
	release()
	return 0, nil, false
}
