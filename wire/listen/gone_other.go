//go:build !linux

package listen

import "syscall"

// gone is not known on this system, beyond what net/http sees.
func gone(syscall.RawConn) bool { return false }
