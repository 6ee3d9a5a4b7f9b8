//go:build !linux

package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, which is its error.
func For(ctx context.Context, d time.Duration) error { return Timer(ctx, d) }
