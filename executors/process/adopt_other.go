//go:build unix && !linux

package process

import "syscall"

// supervisedGroup is a group of the command's own.
func supervisedGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Elsewhere than on Linux, what leaves the command's group cannot be found.
func adopt() {}

func killAdopted() {}
