//go:build unix

package stream

import "syscall"

const canWriteAtOnce = true

// writeAtOnce has the kernel take what it has room for, which may be nothing. The socket
// does not block.
func writeAtOnce(fd uintptr, b []byte) (n int, err error) {
	for {
		n, err = syscall.Write(int(fd), b)
		switch err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
