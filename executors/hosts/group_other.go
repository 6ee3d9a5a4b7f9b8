//go:build !linux

package hosts

import "syscall"

// boundGroup is a process group of its own.
func boundGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
