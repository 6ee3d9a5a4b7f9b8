//go:build unix && !linux

package subprocess

import "syscall"

// attributes of a child, which notices by its pipe alone that nobody is left.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Elsewhere than on Linux, what leaves a command's group cannot be found.
func adopt() {}

func killAdopted() {}
