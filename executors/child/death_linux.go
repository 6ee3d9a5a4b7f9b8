package child

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the child when the thread that started
// it ends; watch keeps that thread for as long as the child runs.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
