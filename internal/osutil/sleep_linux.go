package osutil

import (
	"context"
	"os"
	"sync"
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

// Sleep waits for d, or until ctx ends, which is its error.
func Sleep(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	if coarse := d - kernelPart; coarse > 0 {
		if err := SleepTimer(ctx, coarse); err != nil {
			return err
		}
	}
	for rest := time.Until(end); rest > 0; rest = time.Until(end) {
		if rest <= busyPart {
			continue
		}
		if err := byKernel(rest); err != nil {
			return SleepTimer(ctx, rest)
		}
	}
	return ctx.Err()
}

// kernelTimer is a timer of the kernel that is read as a file. The runtime waits for it as
// for a connection, so that a sleep holds neither a thread nor a processor of the runtime,
// and the slack that threads have for their sleeps, which roles that serve make longer, does
// not count for it.
type kernelTimer struct {
	file   *os.File
	number int // of the file
}

// timers that are not in use.
var timers sync.Pool

func newKernelTimer() (*kernelTimer, error) {
	if t, ok := timers.Get().(*kernelTimer); ok {
		return t, nil
	}
	n, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &kernelTimer{os.NewFile(uintptr(n), "timer"), n}, nil
}

// byKernel sleeps for d, which is not zero.
func byKernel(d time.Duration) error {
	t, err := newKernelTimer()
	if err != nil {
		return err
	}
	if err := unix.TimerfdSettime(t.number, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil); err != nil {
		_ = t.file.Close()
		return err
	}
	var times [8]byte // that it was due
	if _, err := t.file.Read(times[:]); err != nil {
		_ = t.file.Close()
		return err
	}
	timers.Put(t)
	return nil
}
