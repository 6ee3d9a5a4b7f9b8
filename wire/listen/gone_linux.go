package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// gone reports whether the other end has closed the connection or sends no more, whatever
// of it is still to be read.
func gone(raw syscall.RawConn) bool {
	left := false
	_ = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		left = err == nil && n > 0
	})
	return left
}
