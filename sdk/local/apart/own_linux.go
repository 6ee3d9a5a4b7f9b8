package apart

import "syscall"

// ofItsOwn makes a child the leader of a session, for which Linux shares processors apart
// from the session of the gateway (autogroups), and ends it with the thread that started it.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
