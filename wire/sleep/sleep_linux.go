package sleep

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// kernelPart is how much of a sleep is left to the kernel: more than the
// rounding of the runtime's timers, and little enough that a thread is not
// held for long and that ctx is seen soon.
const kernelPart = 2 * time.Millisecond

// For waits for d, or until ctx ends, which is its error.
func For(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	if coarse := d - kernelPart; coarse > 0 {
		if err := Timer(ctx, coarse); err != nil {
			return err
		}
	}
	for rest := time.Until(end); rest > 0; rest = time.Until(end) {
		ts := unix.NsecToTimespec(int64(rest))
		if err := unix.Nanosleep(&ts, nil); err != nil && err != unix.EINTR {
			return err
		}
	}
	return ctx.Err()
}
