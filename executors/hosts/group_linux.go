package hosts

import "syscall"

// boundGroup is a process group of its own that the kernel kills with this process.
func boundGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
