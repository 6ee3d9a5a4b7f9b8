package osutil

import "syscall"

// clockError is what the kernel returns for a clock that is not synchronised.
const clockError = 5

// ClockKept reports whether something keeps the clock of the machine synchronised; known is
// false where that is unknown.
func ClockKept() (kept, known bool) {
	state, err := syscall.Adjtimex(&syscall.Timex{})
	return state != clockError, err == nil
}
