//go:build unix && !linux

package subprocess

import "syscall"

// attributes of a child, which notices the parent's end by its pipe alone.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Elsewhere than on Linux, what leaves a command's group cannot be found.
func adopt() {}

func killAdopted() {}
