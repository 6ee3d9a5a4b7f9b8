package hosts

import (
	"fmt"
	"os"
	"strings"
)

// began says when a process began, in ticks since the machine did; empty where there is
// none, or one that has ended and that nobody has asked about yet.
func began(pid int) string {
	const (
		state   = 0 // of the fields after the program's name, which may have spaces
		started = 19
	)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= started || fields[state] == "Z" || fields[state] == "X" {
		return ""
	}
	return fields[started]
}
