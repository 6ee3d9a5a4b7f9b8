package sleep

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// kernelPart is how much of a sleep is left to the kernel: more than the rounding of
	// the runtime's timers, and little enough that ctx is seen soon.
	kernelPart = 2 * time.Millisecond

	// busyPart is what is waited for without sleeping: to sleep and to wake up takes the
	// processor for as long.
	busyPart = 20 * time.Microsecond
)

// For waits for d, or until ctx ends, which is its error.
func For(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	if coarse := d - kernelPart; coarse > 0 {
		if err := Timer(ctx, coarse); err != nil {
			return err
		}
	}
	for rest := time.Until(end); rest > 0; rest = time.Until(end) {
		if rest <= busyPart {
			continue
		}
		if err := byKernel(rest); err != nil {
			return Timer(ctx, rest)
		}
	}
	return ctx.Err()
}

// byKernel sleeps by a timer of the kernel that is read as a file. The slack that threads
// have for their sleeps, which roles that serve make longer, does not count for it.
func byKernel(d time.Duration) error {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(timer) }()
	if err := unix.TimerfdSettime(timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil); err != nil {
		return err
	}
	var times [8]byte // that it was due
	if _, err := unix.Read(timer, times[:]); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
