package child

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the child when the thread that started
// it ends; watch keeps that thread for as long as the child runs. The child leads a
// session of its own: where Linux shares processors among sessions first (autogroups), an
// engine has one thread beside all those of a gateway, and would get a fraction of a core on
// a machine that is busy.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
