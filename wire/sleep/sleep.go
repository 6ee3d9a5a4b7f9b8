package sleep

import (
	"context"
	"time"
)

// Timer waits for d by a timer of the runtime, or until ctx ends, which is its error. It
// knows virtual time.
func Timer(ctx context.Context, d time.Duration) error {
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

// Again waits before something is asked for again that has been awaited since then: a tenth of
// that time, within bounds. So it is found at most a tenth later than it is there, where waits
// that double may find it after twice the time.
func Again(ctx context.Context, since time.Time, least, most time.Duration) error {
	return Timer(ctx, min(max(time.Since(since)/10, least), most))
}
