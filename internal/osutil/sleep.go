package osutil

import (
	"context"
	"time"
)

// SleepTimer waits for d by a timer of the runtime, or until ctx ends, which is its error.
// It works under virtual time.
func SleepTimer(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SleepAgain waits before the next poll for something that has been awaited since then: a
// tenth of that time, within bounds. So the wait is at most a tenth too long, where waits
// that double may take twice the time.
func SleepAgain(ctx context.Context, since time.Time, least, most time.Duration) error {
	return SleepTimer(ctx, min(max(time.Since(since)/10, least), most))
}
