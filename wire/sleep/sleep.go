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
