//go:build !linux

package hosts

import (
	"os/exec"
	"strconv"
	"strings"
)

// began says when a process began, as ps writes it; empty where there is none, or one that
// has ended and that nobody has asked about yet.
func began(pid int) string {
	text, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	state, when, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if strings.HasPrefix(state, "Z") {
		return ""
	}
	return strings.TrimSpace(when)
}
