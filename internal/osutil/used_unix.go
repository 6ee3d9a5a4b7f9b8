//go:build unix

package osutil

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime is the processor time that this process has used so far, without its
// children; 0 where unknown.
func ProcessorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
