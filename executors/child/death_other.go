//go:build !linux

package child

import "os/exec"

// endWithParent does nothing here: the child notices by its third pipe.
func endWithParent(*exec.Cmd) {}
