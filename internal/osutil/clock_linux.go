package osutil

import "syscall"

// clockError is what the kernel says of a clock that nobody keeps right.
const clockError = 5

// ClockKept reports whether something keeps the clock of the machine right; known is false
// where that cannot be told.
func ClockKept() (kept, known bool) {
	state, err := syscall.Adjtimex(&syscall.Timex{})
	return state != clockError, err == nil
}
