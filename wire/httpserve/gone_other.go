//go:build !linux

package httpserve

import "syscall"

// watches reports whether it can be told that a client is gone.
const watches = false

func gone(syscall.RawConn) bool { return false }
