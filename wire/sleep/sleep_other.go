//go:build !linux

package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, which is its error.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
