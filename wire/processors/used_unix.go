//go:build unix

package processors

import (
	"time"

	"golang.org/x/sys/unix"
)

// used is the processor time that this process has used, without its children.
func used() (time.Duration, bool) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
