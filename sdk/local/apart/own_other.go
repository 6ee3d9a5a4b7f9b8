//go:build !linux

package apart

import "syscall"

// ofItsOwn says nothing here: a child notices by its standard input that nobody is left.
func ofItsOwn() *syscall.SysProcAttr { return nil }
